-- +goose NO TRANSACTION
-- Every default here is constant or stable, so PostgreSQL only writes the
-- catalogue: no row is touched, whatever the table's size. The checks are
-- added unvalidated and validated apart, because validating reads the table
-- and must not do so under the lock that ALTER TABLE takes.

-- +goose Up

-- fillfactor 50 leaves room in each page for the version of a row that marks it: on the same page only what changed
-- goes into the log, on another the whole row. Only new pages are affected.
-- Dropping first makes the statement repeatable when it is run again after a kill.
ALTER TABLE outbox_events
    ADD COLUMN IF NOT EXISTS namespace         text        NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS tenant_id         uuid,
    ADD COLUMN IF NOT EXISTS dedupe_key        text,
    ADD COLUMN IF NOT EXISTS max_attempts      integer,
    ADD COLUMN IF NOT EXISTS headers           jsonb,
    ADD COLUMN IF NOT EXISTS next_attempt_at   timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN IF NOT EXISTS dead_at           timestamptz,
    ADD COLUMN IF NOT EXISTS broker_message_id text,
    ADD COLUMN IF NOT EXISTS ordering_key      text        COLLATE "C",
    ADD COLUMN IF NOT EXISTS passed_at         timestamptz,
    ADD COLUMN IF NOT EXISTS erased_at         timestamptz,
    -- From when on the event is meant to be published; NULL is from the start. next_attempt_at decides, and is never before it.
    ADD COLUMN IF NOT EXISTS deliver_at        timestamptz,
    DROP CONSTRAINT IF EXISTS outbox_events_tenant_dedupe_check,
    DROP CONSTRAINT IF EXISTS outbox_events_max_attempts_check,
    DROP CONSTRAINT IF EXISTS outbox_events_deliver_at_check,
    ADD CONSTRAINT outbox_events_tenant_dedupe_check
        CHECK (tenant_id IS NULL OR dedupe_key IS NULL OR starts_with(dedupe_key, tenant_id::text || '/')) NOT VALID,
    ADD CONSTRAINT outbox_events_max_attempts_check
        CHECK (max_attempts > 0) NOT VALID,
    ADD CONSTRAINT outbox_events_deliver_at_check
        CHECK (deliver_at IS NULL OR next_attempt_at >= deliver_at) NOT VALID,
    SET (fillfactor = 50);

ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_tenant_dedupe_check;
ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_max_attempts_check;
ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_deliver_at_check;

-- +goose Down
ALTER TABLE outbox_events
    RESET (fillfactor),
    DROP COLUMN IF EXISTS namespace,
    DROP COLUMN IF EXISTS tenant_id,
    DROP COLUMN IF EXISTS dedupe_key,
    DROP COLUMN IF EXISTS max_attempts,
    DROP COLUMN IF EXISTS headers,
    DROP COLUMN IF EXISTS next_attempt_at,
    DROP COLUMN IF EXISTS dead_at,
    DROP COLUMN IF EXISTS broker_message_id,
    DROP COLUMN IF EXISTS ordering_key,
    DROP COLUMN IF EXISTS passed_at,
    DROP COLUMN IF EXISTS erased_at,
    DROP COLUMN IF EXISTS deliver_at;
