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
               to_regclass('outbox_events_scheduled_idx'), to_regclass('outbox_events_dead_at_idx'), to_regclass('outbox_events_turn_idx'),
               to_regclass('outbox_events_ordered_claim_idx'), to_regclass('outbox_events_blocking_idx'))
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

-- Operators count and list dead events; without an index of their own that
-- would walk everything that still waits. Only a death writes to it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_dead_at_idx
    ON outbox_events (dead_at) WHERE dead_at IS NOT NULL;

-- What a claim of events with an ordering key reads; events without one are in none of the next three.
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
           'outbox_events_event_type_idx', 'outbox_events_open_aggregate_idx', 'outbox_events_past_aggregate_idx', 'outbox_events_scheduled_idx',
           'outbox_events_dead_at_idx', 'outbox_events_turn_idx', 'outbox_events_ordered_claim_idx', 'outbox_events_blocking_idx');
    IF usable <> 11 THEN
        RAISE EXCEPTION 'only % of 11 indexes on outbox_events are valid', usable
            USING ERRCODE = 'OX201', HINT = 'Run outboxctl migrate again: it drops invalid indexes and builds them again.';
    END IF;
END
$$;
-- +goose StatementEnd

DROP INDEX CONCURRENTLY IF EXISTS idx_outbox_events_published_at;
DROP INDEX CONCURRENTLY IF EXISTS idx_outbox_events_event_type;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_aggregate_idx;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);
