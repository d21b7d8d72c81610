-- The locked table: names and meaning of these columns never change. The types
-- of three of them do not either, but differ between installations: event and
-- aggregate types are enums or text, aggregate ids uuid, text or integers. A fresh
-- table has the enums unless text was asked for (outboxctl migrate --types text).
-- A database that already has such a table keeps it, with its rows; one whose table
-- cannot serve is refused before anything is touched, with the statements that
-- would help.

-- +goose Up

-- +goose StatementBegin
DO $$
DECLARE
    wanted text[];
    found  text[];
BEGIN
    IF coalesce((SELECT format_type(a.atttypid, NULL) IN ('text', 'character varying')
                   FROM pg_attribute AS a WHERE a.attrelid = to_regclass('outbox_events') AND a.attname = 'event_type'),
                current_setting('outboxctl.types', true) = 'text') THEN
        RETURN;
    END IF;
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
    problems   text;
    statements text;
    ours       record;
    theirs     text;
BEGIN
    IF to_regclass('outbox_events') IS NULL THEN
        -- "C" compares bytes: half the cost of a language's order in every index, and the same order on every machine.
        EXECUTE format('CREATE TABLE outbox_events (
            id             uuid        PRIMARY KEY,
            event_type     %s NOT NULL,
            aggregate_type %s NOT NULL,
            aggregate_id   %s NOT NULL,
            payload_json   jsonb       NOT NULL,
            created_at     timestamptz NOT NULL DEFAULT now(),
            published_at   timestamptz,
            attempt_count  integer     NOT NULL DEFAULT 0,
            last_error     text
        )', VARIADIC CASE WHEN current_setting('outboxctl.types', true) = 'text'
                THEN ARRAY['text COLLATE "C"', 'text COLLATE "C"', 'text COLLATE "C"']
                ELSE ARRAY['event_type_enum', 'aggregate_type_enum', 'uuid'] END);
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
    SELECT string_agg(d.name || ' ' || d.problem, '; '), string_agg(d.statement || ';', ' ') INTO problems, statements
      FROM (
-- migrate --dry-run reads what follows, up to its end, from here.
WITH here AS (
    SELECT a.attname::text AS name, a.attnum, format_type(a.atttypid, NULL) AS type, a.attnotnull AS required,
           pg_get_expr(d.adbin, d.adrelid) AS preset, a.attidentity <> '' OR a.attgenerated <> '' AS generated
      FROM pg_attribute AS a
      LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = to_regclass('outbox_events') AND a.attnum > 0 AND NOT a.attisdropped
), wanted(ord, name, types, required, preset, make) AS (VALUES
    (1, 'id',             '{uuid}'::text[],                                        true,  'any',  'uuid DEFAULT gen_random_uuid() PRIMARY KEY'),
    (2, 'event_type',     '{event_type_enum,text,character varying}',              true,  'any',  'text NOT NULL'),
    (3, 'aggregate_type', '{aggregate_type_enum,text,character varying}',          true,  'any',  'text NOT NULL'),
    (4, 'aggregate_id',   '{uuid,text,character varying,bigint,integer}',          true,  'any',  'text NOT NULL'),
    (5, 'payload_json',   '{jsonb}',                                               true,  'any',  'jsonb NOT NULL'),
    (6, 'created_at',     '{timestamp with time zone}',                            true,  'some', 'timestamptz NOT NULL DEFAULT now()'),
    (7, 'published_at',   '{timestamp with time zone}',                            false, 'none', 'timestamptz'),
    (8, 'attempt_count',  '{integer}',                                             true,  '0',    'integer NOT NULL DEFAULT 0'),
    (9, 'last_error',     '{text}',                                                false, 'none', 'text')
)
SELECT w.name, p.problem, 'ALTER TABLE outbox_events ' || p.statement AS statement
  FROM wanted AS w
  LEFT JOIN here AS h ON h.name = w.name
 CROSS JOIN LATERAL (VALUES
    (1, h.name IS NULL, 'is missing', format('ADD COLUMN %s %s', w.name, w.make)),
    (2, h.type <> ALL (w.types), format('is %s, needed is %s', h.type, array_to_string(w.types, ' or ')),
        format(CASE h.type WHEN 'timestamp without time zone' THEN 'ALTER COLUMN %1$s TYPE %2$s USING %1$s AT TIME ZONE ''UTC'''
                           ELSE 'ALTER COLUMN %1$s TYPE %2$s USING %1$s::%2$s' END, w.name, w.types[cardinality(w.types) / 2 + 1])),
    (3, w.required AND NOT h.required, 'may be null', format('ALTER COLUMN %s SET NOT NULL', w.name)),
    (4, h.required AND NOT w.required, 'may not be null, but is while an event waits', format('ALTER COLUMN %s DROP NOT NULL', w.name)),
    (5, w.preset = 'some' AND h.preset IS NULL, 'has no default', format('ALTER COLUMN %s SET DEFAULT now()', w.name)),
    (6, w.preset = '0' AND h.preset IS DISTINCT FROM '0', 'has another default than 0', format('ALTER COLUMN %s SET DEFAULT 0', w.name)),
    (7, w.preset = 'none' AND h.preset NOT LIKE 'NULL%', 'has a default', format('ALTER COLUMN %s DROP DEFAULT', w.name))
  ) AS p(ord, holds, problem, statement)
 WHERE p.holds AND (h.name IS NOT NULL OR p.ord = 1)
 UNION ALL
SELECT h.name, p.problem, 'ALTER TABLE outbox_events ' || p.statement
  FROM here AS h
 CROSS JOIN LATERAL (VALUES
    (h.required AND h.preset IS NULL AND NOT h.generated, 'is a further column that may not be null and has no default',
        format('ALTER COLUMN %I DROP NOT NULL', h.name)),
    (h.name IN ('seq', 'namespace', 'tenant_id', 'dedupe_key', 'max_attempts', 'headers', 'next_attempt_at', 'deliver_at', 'dead_at',
                'broker_message_id', 'ordering_key', 'passed_at', 'erased_at'), 'has the name of a column that outboxctl adds',
        format('RENAME COLUMN %1$s TO their_%1$s', h.name))
  ) AS p(holds, problem, statement)
 WHERE p.holds AND h.name NOT IN (SELECT name FROM wanted)
 UNION ALL
SELECT 'table', 'has no primary key on (id)', 'ALTER TABLE outbox_events ADD PRIMARY KEY (id)'
 WHERE to_regclass('outbox_events') IS NOT NULL AND EXISTS (SELECT FROM here WHERE name = 'id')
   AND NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conrelid = to_regclass('outbox_events') AND c.contype = 'p'
                      AND pg_get_constraintdef(c.oid) = 'PRIMARY KEY (id)')
 UNION ALL
SELECT 'table', 'is a ' || CASE c.relkind WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view' ELSE 'relation of another kind' END,
       'ALTER TABLE outbox_events RENAME TO their_outbox_events'
  FROM pg_class AS c WHERE c.oid = to_regclass('outbox_events') AND c.relkind <> 'r'
-- That was its end.
      ) AS d;
    IF problems IS NOT NULL THEN
        RAISE EXCEPTION 'existing table outbox_events has another shape: %', problems
            USING ERRCODE = 'OX200', HINT = statements;
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
