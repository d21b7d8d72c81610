-- The locked table: names, types and meaning of these columns never change.
-- A database that already has an identical table keeps it, with its rows; one
-- whose table merely looks alike is refused before anything is touched.

-- +goose Up

-- +goose StatementBegin
DO $$
DECLARE
    wanted text[];
    found  text[];
BEGIN
    wanted := ARRAY['vendor_order', 'checkout_group', 'license', 'store', 'media', 'ledger_event', 'notification', 'ad'];
    IF to_regtype('aggregate_type_enum') IS NULL THEN
        CREATE TYPE aggregate_type_enum AS ENUM (
            'vendor_order',
            'checkout_group',
            'license',
            'store',
            'media',
            'ledger_event',
            'notification',
            'ad'
        );
    END IF;
    SELECT array_agg(enumlabel::text) INTO found FROM pg_enum WHERE enumtypid = to_regtype('aggregate_type_enum');
    IF NOT coalesce(found, '{}') @> wanted THEN
        RAISE EXCEPTION 'existing type aggregate_type_enum lacks values: it has %, needed are %', found, wanted
            USING ERRCODE = 'OX200', HINT = 'Rename the existing type, or migrate a database of its own.';
    END IF;

    wanted := ARRAY['order_created', 'order_state_changed', 'line_item_state_changed', 'license_status_changed',
        'media_uploaded', 'payment_settled', 'cash_collected', 'vendor_payout_recorded', 'notification_requested',
        'order_expired', 'order_canceled', 'reservation_released',
        'ad_created', 'ad_updated', 'ad_paused', 'ad_activated', 'ad_expired', 'ad_daily_rollup_ready'];
    IF to_regtype('event_type_enum') IS NULL THEN
        CREATE TYPE event_type_enum AS ENUM (
            'order_created',
            'order_state_changed',
            'line_item_state_changed',
            'license_status_changed',
            'media_uploaded',
            'payment_settled',
            'cash_collected',
            'vendor_payout_recorded',
            'notification_requested',
            'order_expired',
            'order_canceled',
            'reservation_released',
            'ad_created',
            'ad_updated',
            'ad_paused',
            'ad_activated',
            'ad_expired',
            'ad_daily_rollup_ready'
        );
    END IF;
    SELECT array_agg(enumlabel::text) INTO found FROM pg_enum WHERE enumtypid = to_regtype('event_type_enum');
    IF NOT coalesce(found, '{}') @> wanted THEN
        RAISE EXCEPTION 'existing type event_type_enum lacks values: it has %, needed are %', found, wanted
            USING ERRCODE = 'OX200', HINT = 'Rename the existing type, or migrate a database of its own.';
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE
    wanted text[];
    found  text[];
    ours   record;
    theirs text;
BEGIN
    IF to_regclass('outbox_events') IS NULL THEN
        CREATE TABLE outbox_events (
            id             uuid                PRIMARY KEY,
            event_type     event_type_enum     NOT NULL,
            aggregate_type aggregate_type_enum NOT NULL,
            aggregate_id   uuid                NOT NULL,
            payload_json   jsonb               NOT NULL,
            created_at     timestamptz         NOT NULL DEFAULT now(),
            published_at   timestamptz,
            attempt_count  integer             NOT NULL DEFAULT 0,
            last_error     text
        );
        CREATE INDEX idx_outbox_events_published_at ON outbox_events (published_at);
        CREATE INDEX idx_outbox_events_event_type ON outbox_events (event_type);
        CREATE INDEX outbox_events_aggregate_idx ON outbox_events (aggregate_type, aggregate_id);
        RETURN;
    END IF;

    -- Adopt: an owner could put triggers on it, which the functions of later steps would run with our rights.
    SELECT pg_get_userbyid(c.relowner) INTO theirs FROM pg_class c WHERE c.oid = to_regclass('outbox_events');
    IF theirs <> current_user THEN
        RAISE EXCEPTION 'existing table outbox_events belongs to %', theirs
            USING ERRCODE = 'OX200', HINT = format('Migrate as %I, or ALTER TABLE outbox_events OWNER TO %I.', theirs, current_user);
    END IF;
    -- The nine columns must be there exactly, and nothing that belongs to a later step.
    wanted := ARRAY[
        'id uuid not null',
        'event_type event_type_enum not null',
        'aggregate_type aggregate_type_enum not null',
        'aggregate_id uuid not null',
        'payload_json jsonb not null',
        'created_at timestamp with time zone not null default now()',
        'published_at timestamp with time zone',
        'attempt_count integer not null default 0',
        'last_error text'];
    SELECT array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
               || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
               || coalesce(' default ' || lower(pg_get_expr(d.adbin, d.adrelid)), '') ORDER BY a.attnum)
      INTO found
      FROM pg_attribute a
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = to_regclass('outbox_events') AND a.attnum > 0 AND NOT a.attisdropped;
    IF NOT (found @> wanted AND wanted @> found) THEN
        RAISE EXCEPTION 'existing table outbox_events has another shape: it has (%), needed is (%)',
            array_to_string(found, ', '), array_to_string(wanted, ', ')
            USING ERRCODE = 'OX200', HINT = 'Bring the table to the needed shape, or migrate a database of its own.';
    END IF;
    IF NOT EXISTS (
        SELECT FROM pg_constraint c
         WHERE c.conrelid = to_regclass('outbox_events') AND c.contype = 'p'
           AND pg_get_constraintdef(c.oid) = 'PRIMARY KEY (id)') THEN
        RAISE EXCEPTION 'existing table outbox_events has no primary key on (id)'
            USING ERRCODE = 'OX200', HINT = 'ALTER TABLE outbox_events ADD PRIMARY KEY (id);';
    END IF;

    -- Its plain indexes take our names, so that the step that narrows them finds them. A missing one
    -- is not built here, where building would block writers: that step builds it concurrently.
    FOR ours IN
        SELECT * FROM (VALUES
            ('idx_outbox_events_published_at', '(published_at)'),
            ('idx_outbox_events_event_type', '(event_type)'),
            ('outbox_events_aggregate_idx', '(aggregate_type, aggregate_id)')) AS v(name, columns)
    LOOP
        SELECT c.relname INTO theirs
          FROM pg_index i
          JOIN pg_class c ON c.oid = i.indexrelid
         WHERE i.indrelid = to_regclass('outbox_events')
           AND i.indisvalid AND NOT i.indisunique AND i.indpred IS NULL
           AND pg_get_indexdef(i.indexrelid) LIKE '% USING btree ' || ours.columns
         ORDER BY c.relname = ours.name DESC
         LIMIT 1;
        IF theirs IS NOT NULL AND theirs <> ours.name THEN
            EXECUTE format('ALTER INDEX %I RENAME TO %I', theirs, ours.name);
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE IF EXISTS outbox_events;
DROP TYPE IF EXISTS event_type_enum;
DROP TYPE IF EXISTS aggregate_type_enum;
