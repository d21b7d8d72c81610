-- +goose NO TRANSACTION
-- What a claim of events with an ordering key reads. Events without one are in none of these indexes.

-- +goose Up
-- A build that was killed leaves an invalid index, which IF NOT EXISTS would
-- take for a finished one.
-- +goose StatementBegin
DO $$
DECLARE
    leftover regclass;
BEGIN
    FOR leftover IN
        SELECT indexrelid::regclass FROM pg_index
         WHERE NOT indisvalid AND indexrelid IN (to_regclass('outbox_events_turn_idx'),
             to_regclass('outbox_events_ordered_claim_idx'), to_regclass('outbox_events_blocking_idx'))
    LOOP
        EXECUTE format('DROP INDEX %s', leftover);
    END LOOP;
END
$$;
-- +goose StatementEnd
SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;

-- Whose turn it is in a key: its first row that is neither published nor passed.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_turn_idx
    ON outbox_events (ordering_key, seq) WHERE ordering_key IS NOT NULL AND published_at IS NULL AND passed_at IS NULL;

-- Which keys have something to send, oldest first.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_ordered_claim_idx
    ON outbox_events (seq) WHERE ordering_key IS NOT NULL AND published_at IS NULL AND dead_at IS NULL;

-- Which keys stand still behind a dead event.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_blocking_idx
    ON outbox_events (ordering_key, seq)
    WHERE ordering_key IS NOT NULL AND published_at IS NULL AND dead_at IS NOT NULL AND passed_at IS NULL;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);

-- +goose Down
SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_turn_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_ordered_claim_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_blocking_idx;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);
