-- +goose NO TRANSACTION
-- Every full index costs each settle one insert, so the plain indexes become
-- partial. None mentions next_attempt_at, attempt_count or last_error: a failure
-- would have to write it.

-- +goose Up

-- A build that was killed leaves an invalid index, which IF NOT EXISTS would
-- take for a finished one. Valid ones are kept: no work is done twice.
-- +goose StatementBegin
DO $$
DECLARE
    leftover regclass;
BEGIN
    FOR leftover IN
        SELECT i.indexrelid::regclass
          FROM pg_index i
         WHERE i.indrelid = 'outbox_events'::regclass AND NOT i.indisvalid
           AND i.indexrelid IN (
               to_regclass('outbox_events_seq_claim_idx'), to_regclass('outbox_events_dedupe_idx'),
               to_regclass('outbox_events_published_at_idx'), to_regclass('outbox_events_event_type_idx'),
               to_regclass('outbox_events_open_aggregate_idx'), to_regclass('outbox_events_past_aggregate_idx'),
               to_regclass('outbox_events_scheduled_idx'))
    LOOP
        EXECUTE format('DROP INDEX %s', leftover);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Building or dropping concurrently blocks no session while it waits for older
-- transactions, so the short lock timeout would only throw work away here.
SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;

-- Claims read in seq order and see only rows that can still be published.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_seq_claim_idx
    ON outbox_events (seq) WHERE published_at IS NULL AND dead_at IS NULL;

-- A second event with the same key is "already enqueued".
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_dedupe_idx
    ON outbox_events (namespace, event_type, dedupe_key) WHERE dedupe_key IS NOT NULL;

-- Cleanup and republish walk published rows by time.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_published_at_idx
    ON outbox_events (published_at) WHERE published_at IS NOT NULL;

-- Operators ask what waits, by type; published rows leave this index.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_event_type_idx
    ON outbox_events (event_type) WHERE published_at IS NULL;

-- The events of an aggregate. In one index the mark would write an event a second time beside its first entry, and look
-- for room by asking which older entries can go: a quarter of what a settle costs.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_open_aggregate_idx
    ON outbox_events (aggregate_type, aggregate_id) WHERE published_at IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_past_aggregate_idx
    ON outbox_events (aggregate_type, aggregate_id) WHERE published_at IS NOT NULL;

-- What is to be published later, soonest first. An event without a time is not in it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_scheduled_idx
    ON outbox_events (deliver_at) WHERE deliver_at IS NOT NULL AND published_at IS NULL AND dead_at IS NULL;

-- The full indexes go only when their successors are known to be usable.
-- +goose StatementBegin
DO $$
DECLARE
    usable int;
BEGIN
    SELECT count(*) INTO usable
      FROM pg_index i
      JOIN pg_class c ON c.oid = i.indexrelid
     WHERE i.indrelid = 'outbox_events'::regclass AND i.indisvalid AND i.indisready
       AND c.relname IN ('outbox_events_seq_claim_idx', 'outbox_events_dedupe_idx', 'outbox_events_published_at_idx',
           'outbox_events_event_type_idx', 'outbox_events_open_aggregate_idx', 'outbox_events_past_aggregate_idx', 'outbox_events_scheduled_idx');
    IF usable <> 7 THEN
        RAISE EXCEPTION 'only % of 7 indexes on outbox_events are valid', usable
            USING ERRCODE = 'OX201', HINT = 'Run outboxctl migrate again: it drops invalid indexes and builds them again.';
    END IF;
END
$$;
-- +goose StatementEnd

DROP INDEX CONCURRENTLY IF EXISTS idx_outbox_events_published_at;
DROP INDEX CONCURRENTLY IF EXISTS idx_outbox_events_event_type;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_aggregate_idx;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    leftover regclass;
BEGIN
    FOR leftover IN
        SELECT indexrelid::regclass FROM pg_index
         WHERE NOT indisvalid AND indexrelid IN (
             to_regclass('idx_outbox_events_published_at'), to_regclass('idx_outbox_events_event_type'),
             to_regclass('outbox_events_aggregate_idx'))
    LOOP
        EXECUTE format('DROP INDEX %s', leftover);
    END LOOP;
END
$$;
-- +goose StatementEnd

SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_outbox_events_published_at ON outbox_events (published_at);
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_outbox_events_event_type ON outbox_events (event_type);
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_aggregate_idx ON outbox_events (aggregate_type, aggregate_id);
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_seq_claim_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_dedupe_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_published_at_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_event_type_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_open_aggregate_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_past_aggregate_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_scheduled_idx;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);
