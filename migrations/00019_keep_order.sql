-- +goose NO TRANSACTION
-- Events with the same ordering key are published in the order of their seq. The row decides: NULL, the default, is
-- delivery in any order. passed_at is set when the last dead letter of an event is discarded: what follows it in its
-- key may pass. Nothing here rewrites a row. Checks are added unvalidated and validated apart, see 00002.

-- +goose Up
ALTER TABLE outbox_events
    DROP CONSTRAINT IF EXISTS outbox_events_ordering_key_check,
    DROP CONSTRAINT IF EXISTS outbox_events_passed_check,
    -- Namespaces never share a key; 1,024 bytes are the broker's limit.
    ADD CONSTRAINT outbox_events_ordering_key_check
        CHECK (ordering_key IS NULL OR (starts_with(ordering_key, namespace || '/')
               AND octet_length(ordering_key) BETWEEN octet_length(namespace) + 2 AND 1024)) NOT VALID,
    ADD CONSTRAINT outbox_events_passed_check
        CHECK (passed_at IS NULL OR (ordering_key IS NOT NULL AND dead_at IS NOT NULL AND published_at IS NULL)) NOT VALID;

ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_ordering_key_check;
ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_passed_check;

DROP TRIGGER IF EXISTS outbox_events_refuse_rekey ON outbox_events;
CREATE TRIGGER outbox_events_refuse_rekey
    BEFORE UPDATE OF ordering_key ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
DROP TRIGGER IF EXISTS outbox_events_refuse_gap ON outbox_events;
CREATE TRIGGER outbox_events_refuse_gap
    BEFORE DELETE ON outbox_events FOR EACH ROW
    WHEN (OLD.ordering_key IS NOT NULL AND OLD.published_at IS NULL AND OLD.passed_at IS NULL)
    EXECUTE FUNCTION outbox_refuse_delete('events of its ordering key wait for it');

-- +goose Down
DROP TRIGGER IF EXISTS outbox_events_refuse_gap ON outbox_events;
DROP TRIGGER IF EXISTS outbox_events_refuse_rekey ON outbox_events;
ALTER TABLE outbox_events
    DROP CONSTRAINT IF EXISTS outbox_events_ordering_key_check,
    DROP CONSTRAINT IF EXISTS outbox_events_passed_check;
