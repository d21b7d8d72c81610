-- +goose NO TRANSACTION
-- Operators count and list dead events; without an index of their own that
-- would walk everything that still waits. Only a death writes to it.

-- +goose Up
-- A build that was killed leaves an invalid index, which IF NOT EXISTS would
-- take for a finished one.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('outbox_events_dead_at_idx') AND NOT indisvalid) THEN
        DROP INDEX outbox_events_dead_at_idx;
    END IF;
END
$$;
-- +goose StatementEnd
SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_dead_at_idx
    ON outbox_events (dead_at) WHERE dead_at IS NOT NULL;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);

-- +goose Down
SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS outbox_events_dead_at_idx;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);
