-- +goose NO TRANSACTION
-- What delivery adds to a table that is in use, adopted or new: columns and an order. Nothing here rewrites
-- the table or holds a lock on it for longer than it takes to write PostgreSQL's catalogue, and every statement can be
-- repeated: after a kill, and after a lock that was not had in time, the file runs again from its beginning.

-- +goose Up

-- Every default here is constant or stable, so PostgreSQL only writes its
-- catalogue: no row is touched, whatever the table's size.
-- fillfactor 50 leaves room in each page for the version of a row that marks it: on the same page only what changed
-- goes into the log, on another the whole row. Only new pages are affected.
ALTER TABLE outbox_events
    ADD COLUMN IF NOT EXISTS namespace         text        NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS tenant_id         uuid,
    ADD COLUMN IF NOT EXISTS dedupe_key        text,
    ADD COLUMN IF NOT EXISTS max_attempts      integer,
    ADD COLUMN IF NOT EXISTS headers           jsonb,
    ADD COLUMN IF NOT EXISTS next_attempt_at   timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN IF NOT EXISTS dead_at           timestamptz,
    ADD COLUMN IF NOT EXISTS broker_message_id text,
    -- Events with the same ordering key are published in the order of their seq. The row decides: NULL, the default, is
    -- delivery in any order. passed_at is set when the last dead letter of an event is discarded: what follows it in its
    -- key may pass.
    ADD COLUMN IF NOT EXISTS ordering_key      text        COLLATE "C",
    ADD COLUMN IF NOT EXISTS passed_at         timestamptz,
    ADD COLUMN IF NOT EXISTS erased_at         timestamptz,
    -- From when on the event is meant to be published; NULL is from the start. next_attempt_at decides, and is never before it.
    ADD COLUMN IF NOT EXISTS deliver_at        timestamptz,
    SET (fillfactor = 50);

-- Checks are added unvalidated and validated apart, because validating reads the table
-- and must not do so under the lock that ALTER TABLE takes. One that is valid is not read again.
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = 'outbox_events'::regclass AND conname = 'outbox_events_passed_check') THEN
        ALTER TABLE outbox_events
            ADD CONSTRAINT outbox_events_tenant_dedupe_check
                CHECK (tenant_id IS NULL OR dedupe_key IS NULL OR starts_with(dedupe_key, tenant_id::text || '/')) NOT VALID,
            ADD CONSTRAINT outbox_events_max_attempts_check
                CHECK (max_attempts > 0) NOT VALID,
            ADD CONSTRAINT outbox_events_deliver_at_check
                CHECK (deliver_at IS NULL OR next_attempt_at >= deliver_at) NOT VALID,
            -- Namespaces never share a key; 1,024 bytes are the broker's limit.
            ADD CONSTRAINT outbox_events_ordering_key_check
                CHECK (ordering_key IS NULL OR (starts_with(ordering_key, namespace || '/')
                       AND octet_length(ordering_key) BETWEEN octet_length(namespace) + 2 AND 1024)) NOT VALID,
            ADD CONSTRAINT outbox_events_passed_check
                CHECK (passed_at IS NULL OR (ordering_key IS NOT NULL AND dead_at IS NOT NULL AND published_at IS NULL)) NOT VALID;
    END IF;
END
$$;
-- +goose StatementEnd

ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_tenant_dedupe_check;
ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_max_attempts_check;
ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_deliver_at_check;
ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_ordering_key_check;
ALTER TABLE outbox_events VALIDATE CONSTRAINT outbox_events_passed_check;

-- seq is the order of events: created_at is the start of a transaction and
-- repeats. A GENERATED column added in one go would rewrite the table under
-- ACCESS EXCLUSIVE, so it comes in steps. Events
-- that were published before have no turn to wait for: they keep seq 0, which is
-- stored nowhere, and no row of theirs is touched. Only those that wait are
-- numbered, in short transactions. An event that is open has a number of its own:
-- it is what a lease names it by.
--
-- Waiting rows take 1..n, new rows start above them. n is bounded by what the
-- table's pages can physically hold (291 rows each), which needs no count
-- under the lock.
-- +goose StatementBegin
DO $$
DECLARE
    pages bigint;
BEGIN
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'outbox_events'::regclass AND attname = 'seq' AND NOT attisdropped) THEN
        RETURN;
    END IF;
    LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE;
    pages := pg_relation_size('outbox_events') / current_setting('block_size')::bigint;
    EXECUTE format('CREATE SEQUENCE outbox_events_new_seq START %s', pages * 291 + 1);
    -- A default is evaluated as the inserting role, which until now needed no right on any sequence.
    GRANT USAGE ON SEQUENCE outbox_events_new_seq TO PUBLIC;
    CREATE SEQUENCE outbox_events_old_seq;
    ALTER TABLE outbox_events ADD COLUMN seq bigint NOT NULL DEFAULT 0;
    ALTER TABLE outbox_events ALTER COLUMN seq SET DEFAULT nextval('outbox_events_new_seq');
END
$$;
-- +goose StatementEnd

-- An invalid index is what a killed build leaves behind.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('outbox_events_backfill_idx') AND NOT indisvalid) THEN
        DROP INDEX outbox_events_backfill_idx;
    END IF;
END
$$;
-- +goose StatementEnd

-- Building an index concurrently blocks no reader and no writer while it
-- waits, so a long transaction may delay it as long as it likes.
SELECT set_config('outboxctl.lock_timeout', current_setting('lock_timeout'), false);
SET lock_timeout = 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS outbox_events_backfill_idx ON outbox_events (created_at, id) WHERE published_at IS NULL AND seq = 0;

-- SKIP LOCKED: a publisher may hold rows in a long transaction; they are taken
-- on a later pass instead of stopping the whole backfill. After each batch comes a
-- pause as long as the batch took, or --pace times that: production has the disk
-- for the other half of the time.
-- +goose StatementBegin
DO $$
DECLARE
    pace         CONSTANT float8 := coalesce(nullif(current_setting('outboxctl.pace', true), '')::float8, 1);
    from_created timestamptz := '-infinity';
    from_id      uuid := '00000000-0000-0000-0000-000000000000';
    touched      bigint;
    began        timestamptz;
BEGIN
    IF to_regclass('outbox_events_old_seq') IS NULL THEN
        RETURN;
    END IF;
    LOOP
        began := clock_timestamp();
        WITH batch AS MATERIALIZED (
            SELECT id, created_at
              FROM outbox_events
             WHERE published_at IS NULL AND seq = 0 AND (created_at, id) > (from_created, from_id)
             ORDER BY created_at, id
             LIMIT 2000
               FOR UPDATE SKIP LOCKED
        ), numbered AS MATERIALIZED (
            SELECT id, created_at, nextval('outbox_events_old_seq') AS seq FROM batch
        ), filled AS (
            UPDATE outbox_events e SET seq = n.seq FROM numbered n WHERE e.id = n.id
            RETURNING n.created_at, n.id, n.seq
        ), last AS (
            SELECT created_at, id FROM filled ORDER BY seq DESC LIMIT 1
        )
        SELECT (SELECT count(*) FROM filled), last.created_at, last.id
          INTO touched, from_created, from_id
          FROM (SELECT 1) AS one LEFT JOIN last ON true;
        COMMIT;
        IF touched = 0 THEN
            EXIT WHEN NOT EXISTS (SELECT FROM outbox_events WHERE published_at IS NULL AND seq = 0);
            PERFORM pg_sleep(0.1);
            from_created := '-infinity';
            from_id := '00000000-0000-0000-0000-000000000000';
        ELSE
            PERFORM pg_sleep(pace * extract(epoch FROM clock_timestamp() - began));
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

DROP INDEX CONCURRENTLY IF EXISTS outbox_events_backfill_idx;
SELECT set_config('lock_timeout', current_setting('outboxctl.lock_timeout'), false);

-- The identity's own sequence continues where the default's stopped: the lock
-- keeps other sessions from drawing a number in between.
-- +goose StatementBegin
DO $$
DECLARE
    next_seq bigint;
BEGIN
    IF to_regclass('outbox_events_new_seq') IS NULL THEN
        RETURN;
    END IF;
    LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE;
    next_seq := nextval('outbox_events_new_seq');
    ALTER TABLE outbox_events ALTER COLUMN seq DROP DEFAULT;
    EXECUTE format('ALTER TABLE outbox_events ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (START WITH %s)', next_seq);
    DROP SEQUENCE outbox_events_new_seq;
    DROP SEQUENCE outbox_events_old_seq;
END
$$;
-- +goose StatementEnd
