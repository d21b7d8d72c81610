-- +goose NO TRANSACTION
-- The audit rows of one run, without reading the ids of every other.

-- +goose Up
-- A build that was killed leaves an invalid index, which IF NOT EXISTS would
-- take for a finished one.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('outbox_audit_run_idx') AND NOT indisvalid) THEN
        DROP INDEX outbox_audit_run_idx;
    END IF;
END
$$;
-- +goose StatementEnd
SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_audit_run_idx
    ON outbox_audit ((detail ->> 'runId'), id) WHERE detail ->> 'runId' IS NOT NULL;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);

-- +goose Down
SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS outbox_audit_run_idx;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);
