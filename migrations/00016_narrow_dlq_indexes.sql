-- +goose NO TRANSACTION
-- Triage looks at open dead letters, and replaying one takes it out of that
-- set. Indexes on what is filtered by are therefore partial on 'open': a replay
-- then writes to none of them, and a page of open rows is read from one end of
-- an index whatever else the table keeps. Handled rows are found by event, or by
-- walking them in order of time.

-- +goose Up

-- A build that was killed leaves an invalid index, which IF NOT EXISTS would
-- take for a finished one.
-- +goose StatementBegin
DO $$
DECLARE
    leftover regclass;
BEGIN
    FOR leftover IN
        SELECT i.indexrelid::regclass
          FROM pg_index AS i
         WHERE NOT i.indisvalid
           AND i.indexrelid IN (
               to_regclass('outbox_dlq_open_idx'), to_regclass('outbox_dlq_discarded_idx'),
               to_regclass('outbox_dlq_open_aggregate_idx'),
               to_regclass('outbox_dlq_open_reason_idx'), to_regclass('outbox_dlq_open_type_idx'),
               to_regclass('outbox_dlq_open_topic_idx'), to_regclass('outbox_dlq_open_fingerprint_idx'),
               to_regclass('outbox_dlq_open_namespace_idx'), to_regclass('outbox_dlq_open_tenant_idx'),
               to_regclass('outbox_dlq_handled_idx'), to_regclass('outbox_audit_events_idx'))
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

CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_open_idx
    ON outbox_dlq (failed_at DESC, id DESC) WHERE state = 'open';
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_discarded_idx
    ON outbox_dlq (failed_at DESC, id DESC) WHERE state = 'discarded';
-- These run in one direction, so that a page can be asked for by comparing whole
-- rows of the index, (column, time, id), which no other index can answer: the
-- planner is left no choice that looks cheaper and walks the whole table.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_open_reason_idx
    ON outbox_dlq (error_reason, failed_at, id) WHERE state = 'open';
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_open_type_idx
    ON outbox_dlq (event_type, failed_at, id) WHERE state = 'open';
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_open_topic_idx
    ON outbox_dlq (topic, failed_at, id) WHERE state = 'open';
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_open_fingerprint_idx
    ON outbox_dlq (fingerprint, failed_at, id) WHERE state = 'open';
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_open_namespace_idx
    ON outbox_dlq (namespace, failed_at, id) WHERE state = 'open';
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_open_tenant_idx
    ON outbox_dlq (tenant_id, failed_at, id) WHERE state = 'open' AND tenant_id IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_open_aggregate_idx
    ON outbox_dlq (aggregate_id, failed_at, id) WHERE state = 'open';

DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_state_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_aggregate_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_reason_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_type_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_topic_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_fingerprint_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_namespace_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_tenant_idx;

-- Cleanup removes what was handled long ago.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_handled_idx
    ON outbox_dlq (state_changed_at) WHERE state <> 'open';

-- The history of one event.
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_audit_events_idx
    ON outbox_audit USING gin ((detail -> 'eventIds') jsonb_path_ops);

SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);

-- +goose Down
SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_state_idx ON outbox_dlq (state, failed_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_aggregate_idx ON outbox_dlq (aggregate_id, failed_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_reason_idx ON outbox_dlq (error_reason, failed_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_type_idx ON outbox_dlq (event_type, failed_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_topic_idx ON outbox_dlq (topic, failed_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_fingerprint_idx ON outbox_dlq (fingerprint, failed_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_namespace_idx ON outbox_dlq (namespace, failed_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_dlq_tenant_idx ON outbox_dlq (tenant_id, failed_at DESC, id DESC) WHERE tenant_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS outbox_audit_events_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_handled_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_open_tenant_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_open_namespace_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_open_fingerprint_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_open_topic_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_open_type_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_open_reason_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_open_aggregate_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_discarded_idx;
DROP INDEX CONCURRENTLY IF EXISTS outbox_dlq_open_idx;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);
