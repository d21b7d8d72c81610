-- Emitting from any language, by the rules the Go package follows. Refusals
-- have SQLSTATEs of their own class (OX) and name the field as COLUMN:
--   OX001 unknown event type      OX002 wrong aggregate       OX003 data is null
--   OX004 malformed field         OX005 key without tenant    OX006 too large
--   OX007 the id belongs to another event
--   OX008 something else on the table keeps the row out
-- The functions that write run as their owner, so that an emitter needs no
-- right to read the table.
--
-- Every function of this schema looks names up in pg_catalog alone. With this
-- schema on its path, a role that may create here could offer a function or an
-- operator that fits an argument better than PostgreSQL's own does, and have it
-- run as the owner. What is ours is therefore called by its full name, in which
-- @schema@ stands for the schema that the migration runs in.

-- +goose Up

-- +goose StatementBegin
CREATE FUNCTION outbox_qualify_functions() RETURNS void
    LANGUAGE plpgsql
    SET check_function_bodies = on
    AS $$
DECLARE
    mark CONSTANT text := '@' || 'schema@';
    f    oid;
BEGIN
    FOR f IN
        SELECT p.oid FROM pg_proc AS p
         WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND strpos(p.prosrc, mark) > 0
    LOOP
        EXECUTE replace(pg_get_functiondef(f), mark, quote_ident(current_schema()));
    END LOOP;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION outbox_qualify_functions() FROM PUBLIC;

-- Until then their text is no SQL.
SET LOCAL check_function_bodies = off;

-- The event types that `outboxctl registry apply` recorded, one row each. A row
-- of namespace * holds for every namespace that has no row of its own for the
-- type. Any program may read it; only the owner writes. While it is empty the
-- event types are the built-in ones of outbox_builtin_aggregate.
CREATE TABLE outbox_event_types (
    namespace      text COLLATE "C" NOT NULL DEFAULT '*'
        CONSTRAINT outbox_event_types_namespace_check CHECK (octet_length(namespace) BETWEEN 1 AND 255),
    event_type     text COLLATE "C" NOT NULL
        CONSTRAINT outbox_event_types_event_type_check
        CHECK (event_type ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$' AND octet_length(event_type) <= 255),
    -- Empty for events that are about no aggregate.
    aggregate_type text COLLATE "C" NOT NULL
        CONSTRAINT outbox_event_types_aggregate_type_check CHECK (octet_length(aggregate_type) <= 255),
    topic          text             NOT NULL,
    -- standard: payload_json is the envelope. none: it is the data itself.
    envelope       text             NOT NULL DEFAULT 'standard'
        CONSTRAINT outbox_event_types_envelope_check CHECK (envelope IN ('standard', 'none')),
    -- The JSON Schema of the data; NULL is any JSON but null.
    schema         jsonb,
    -- What else the catalogue says of the type; PostgreSQL reads order alone.
    options        jsonb            NOT NULL DEFAULT '{}',
    digest         text             NOT NULL,
    applied_at     timestamptz      NOT NULL DEFAULT now(),
    PRIMARY KEY (event_type, namespace)
);

-- Which catalogue that is. There is always one row, so who applies a
-- catalogue can lock it; revision 0 is a database that recorded nothing.
CREATE TABLE outbox_catalogue (
    one_row    boolean     PRIMARY KEY DEFAULT true CONSTRAINT outbox_catalogue_one_row_check CHECK (one_row),
    revision   bigint      NOT NULL,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    applied_by text        NOT NULL DEFAULT session_user
);
INSERT INTO outbox_catalogue (revision, name) VALUES (0, 'builtin');

-- The aggregate of a built-in type; NULL for a text that is none.
-- +goose StatementBegin
CREATE FUNCTION outbox_builtin_aggregate(event_type text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE event_type
        WHEN 'order_created' THEN 'checkout_group'
        WHEN 'order_state_changed' THEN 'vendor_order'
        WHEN 'line_item_state_changed' THEN 'vendor_order'
        WHEN 'license_status_changed' THEN 'license'
        WHEN 'media_uploaded' THEN 'media'
        WHEN 'payment_settled' THEN 'ledger_event'
        WHEN 'cash_collected' THEN 'vendor_order'
        WHEN 'vendor_payout_recorded' THEN 'ledger_event'
        WHEN 'notification_requested' THEN 'notification'
        WHEN 'order_expired' THEN 'vendor_order'
        WHEN 'order_canceled' THEN 'vendor_order'
        WHEN 'reservation_released' THEN 'vendor_order'
        WHEN 'ad_created' THEN 'ad'
        WHEN 'ad_updated' THEN 'ad'
        WHEN 'ad_paused' THEN 'ad'
        WHEN 'ad_activated' THEN 'ad'
        WHEN 'ad_expired' THEN 'ad'
        WHEN 'ad_daily_rollup_ready' THEN 'ad'
    END
$$;
-- +goose StatementEnd

-- What the catalogue says of a type, or no row. PostgreSQL inlines it: one probe
-- of an index for each event. (A join would hash the whole catalogue for each call.)
-- envelope is cloudevents where there is none and the message is a CloudEvent. ordered_by is what comes before the aggregate's id in the ordering key; NULL where
-- the type keeps no order. former are the names it had before; NULL where it had none.
-- +goose StatementBegin
CREATE FUNCTION outbox_catalogue_type(event_type text, namespace text)
    RETURNS TABLE (aggregate_type text, envelope text, ordered_by text, former jsonb)
    LANGUAGE sql STABLE ROWS 1
    AS $$
    (SELECT c.aggregate_type, CASE WHEN c.options ->> 'cloudEventsSource' IS NULL THEN c.envelope ELSE 'cloudevents' END,
            CASE c.options ->> 'order' WHEN 'aggregate' THEN c.topic || '/' || c.aggregate_type || '/' END, c.options -> 'was'
       FROM @schema@.outbox_event_types AS c
      WHERE c.event_type = $1 AND c.namespace IN ('*', $2)
      ORDER BY c.namespace = '*'
      LIMIT 1)
     UNION ALL
    SELECT b.aggregate_type, 'standard', NULL, NULL
      FROM (SELECT @schema@.outbox_builtin_aggregate($1)) AS b(aggregate_type)
     WHERE b.aggregate_type IS NOT NULL AND NOT EXISTS (SELECT FROM @schema@.outbox_event_types)
$$;
-- +goose StatementEnd

-- The event that holds a dedupe key under a former name of its type. A namespace
-- that has a type of that name means another by it.
-- +goose StatementBegin
CREATE FUNCTION outbox_former_event(former jsonb, namespace text, dedupe_key text) RETURNS uuid
    LANGUAGE sql STABLE
    AS $$
    SELECT o.id
      FROM jsonb_array_elements_text($1) AS f(name)
      JOIN @schema@.outbox_events AS o
        ON o.namespace = $2 AND o.event_type = @schema@.outbox_event_type(f.name) AND o.dedupe_key = $3 AND o.dedupe_key IS NOT NULL
     WHERE NOT EXISTS (SELECT FROM @schema@.outbox_event_types AS t WHERE t.event_type = f.name AND t.namespace = $2)
     LIMIT 1
$$;
-- +goose StatementEnd

-- What a length-delimited field of n bytes weighs in the broker's encoding: tag, length, content.
-- +goose StatementBegin
CREATE FUNCTION outbox_field_bytes(n int) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT n + CASE WHEN n < 128 THEN 2 WHEN n < 16384 THEN 3 WHEN n < 2097152 THEN 4 ELSE 5 END
$$;
-- +goose StatementEnd

-- The rules in one place. Raises, or returns true so that it can stand in a
-- WHERE clause. label says which event of a batch is meant; NULL for a single one.
-- expected and envelope are what the catalogue says of the type; NULL if it has none.
-- The limits are the broker's: 10 MB per request, of which 512 bytes are kept
-- for the topic's name; 100 attributes of which nine are ours; 256 bytes per
-- name and 1,024 per value. One run costs microseconds: emitting in bulk pays
-- for each, so the queries are kept out of the common case.
-- +goose StatementBegin
CREATE FUNCTION outbox_check_event(
    label text, id uuid, event_type text, aggregate_type text, aggregate_id text, payload jsonb,
    dedupe_key text, tenant_id uuid, namespace text, headers jsonb, max_attempts int, expected text, envelope text, ordering_key text
) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    nothing  CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    -- event_id, and created_at at its longest, are 93 bytes; the others have 16, 20 and 18 besides their text, and those of
    -- more than a hundred bytes two more.
    bytes    int := @schema@.outbox_field_bytes(octet_length(payload::text)) + 93
        + 16 + octet_length(event_type) + CASE WHEN octet_length(event_type) > 100 THEN 2 ELSE 0 END
        + CASE WHEN expected = '' THEN 0 ELSE 20 + octet_length(expected) + CASE WHEN octet_length(expected) > 100 THEN 2 ELSE 0 END
               + 18 + octet_length(aggregate_id) + CASE WHEN octet_length(aggregate_id) > 100 THEN 2 ELSE 0 END END
        + 15 + octet_length(coalesce(namespace, 'default')) + CASE WHEN octet_length(namespace) > 100 THEN 2 ELSE 0 END
        + CASE WHEN tenant_id IS NULL THEN 0 ELSE 51 END
        + CASE WHEN dedupe_key IS NULL THEN 0 ELSE 16 + octet_length(dedupe_key) + CASE WHEN octet_length(dedupe_key) > 100 THEN 2 ELSE 0 END END
        -- the seven attributes of a CloudEvent at their longest
        + CASE WHEN envelope = 'cloudevents' THEN 2048 ELSE 0 END
        -- event_seq at its longest, and the key itself
        + CASE WHEN ordering_key IS NULL THEN 0 ELSE 34 + octet_length(coalesce(namespace, 'default')) + 1 + octet_length(ordering_key) END;
    state    text := 'OX004';
    field    text;
    message  text;
    h        record;
    entries  int := 0;
    most     int := 92 - CASE WHEN ordering_key IS NULL THEN 0 ELSE 1 END - CASE WHEN envelope = 'cloudevents' THEN 7 ELSE 0 END;
BEGIN
    IF expected IS NULL THEN
        RAISE EXCEPTION '%', coalesce(label || ': ', '') || format('event_type: unknown event type %L', left(event_type, 80))
            USING ERRCODE = 'OX001', COLUMN = 'event_type',
                  HINT = 'Add it to the catalogue and record that with outboxctl registry apply.';
    ELSIF aggregate_type <> expected THEN
        state := 'OX002'; field := 'aggregate_type';
        message := format('%s belongs to aggregate %s, not to %L', event_type, expected, left(aggregate_type, 80));
    ELSIF id IS NULL OR id = nothing THEN
        field := 'id'; message := 'must be set';
    ELSIF expected = '' AND aggregate_id <> '' THEN
        field := 'aggregate_id'; message := format('must be left out: %s is about no aggregate', event_type);
    ELSIF expected <> '' AND coalesce(aggregate_id, '') IN ('', nothing::text) THEN
        field := 'aggregate_id'; message := 'must be set';
    ELSIF octet_length(aggregate_id) > 255 THEN
        field := 'aggregate_id'; message := 'must have at most 255 bytes';
    ELSIF namespace = '' OR octet_length(namespace) > 255 THEN
        field := 'namespace'; message := 'must have 1 to 255 bytes';
    ELSIF dedupe_key = '' OR octet_length(dedupe_key) > 1024 THEN
        field := 'dedupe_key'; message := 'must have 1 to 1024 bytes';
    ELSIF NOT starts_with(dedupe_key, tenant_id::text || '/') THEN
        state := 'OX005'; field := 'dedupe_key'; message := format('must start with the tenant: %s/', tenant_id);
    ELSIF ordering_key = '' OR octet_length(coalesce(namespace, 'default')) + 1 + octet_length(ordering_key) > 1024 THEN
        field := 'ordering_key'; message := 'must have 1 to 1024 bytes with its namespace';
    ELSIF max_attempts < 1 THEN
        field := 'max_attempts'; message := 'must be at least 1';
    ELSIF envelope = 'standard' AND jsonb_typeof(payload) IS DISTINCT FROM 'object' THEN
        field := 'payload'; message := 'must be the envelope, a JSON object';
    ELSIF coalesce(CASE envelope WHEN 'standard' THEN payload -> 'data' ELSE payload END, 'null') = 'null' THEN
        state := 'OX003'; field := 'data'; message := 'must not be null ({} is allowed)';
    ELSIF envelope = 'standard' AND (payload -> 'version' IS DISTINCT FROM '1' OR payload ->> 'eventId' IS DISTINCT FROM id::text
          OR payload - '{version,eventId,occurredAt,actor,data}'::text[] <> '{}') THEN
        field := 'payload'; message := format('must be the envelope: version 1, eventId %s, occurredAt, actor, data, and no more', id);
    ELSIF envelope = 'standard' AND coalesce(payload ->> 'occurredAt', '') !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$' THEN
        field := 'payload'; message := 'envelope occurredAt must be an RFC 3339 timestamp';
    ELSIF envelope = 'standard' AND coalesce(payload -> 'actor', 'null') <> 'null' AND (jsonb_typeof(payload -> 'actor') <> 'object'
          OR coalesce(payload -> 'actor' ->> 'userId', '') = ''
          OR jsonb_typeof(payload -> 'actor' -> 'userId') <> 'string'
          OR jsonb_typeof(payload -> 'actor' -> 'storeId') NOT IN ('string', 'null')
          OR jsonb_typeof(payload -> 'actor' -> 'role') NOT IN ('string', 'null')
          OR octet_length(payload -> 'actor' ->> 'userId') > 1024
          OR octet_length(payload -> 'actor' ->> 'storeId') > 1024
          OR octet_length(payload -> 'actor' ->> 'role') > 1024
          OR (payload -> 'actor') - '{userId,storeId,role}'::text[] <> '{}') THEN
        field := 'actor'; message := 'must be an object of strings of at most 1024 bytes: userId and, if known, storeId and role';
    ELSIF jsonb_typeof(headers) <> 'object' THEN
        field := 'headers'; message := 'must be an object of strings';
    ELSIF headers IS NOT NULL THEN
        field := 'headers';
        FOR h IN SELECT e.key, e.value #>> '{}' AS text, jsonb_typeof(e.value) AS kind FROM jsonb_each(headers) AS e LOOP
            entries := entries + 1;
            IF h.kind <> 'string' THEN
                message := format('value of %L must be a string', left(h.key, 64));
            ELSIF h.key = '' THEN
                message := 'a name must not be empty';
            ELSIF octet_length(h.key) > 256 THEN
                state := 'OX006'; message := format('name %L must have at most 256 bytes', left(h.key, 64));
            ELSIF octet_length(h.text) > 1024 THEN
                state := 'OX006'; message := format('value of %L must have at most 1024 bytes', h.key);
            ELSIF starts_with(lower(h.key), 'goog') THEN
                message := format('name %L starts with goog, which the broker keeps for itself', h.key);
            ELSIF lower(h.key) IN ('event_id', 'event_type', 'aggregate_type', 'aggregate_id', 'created_at', 'namespace', 'tenant_id', 'dedupe_key', 'event_seq')
                  OR envelope = 'cloudevents' AND lower(h.key) IN ('ce-specversion', 'ce-id', 'ce-type', 'ce-source', 'ce-time', 'ce-subject', 'content-type') THEN
                message := format('name %L is an attribute the publisher sets', h.key);
            ELSIF entries > most THEN
                state := 'OX006'; message := format('at most %s entries are allowed', most);
            ELSE
                bytes := bytes + @schema@.outbox_field_bytes(
                    @schema@.outbox_field_bytes(octet_length(h.key)) + @schema@.outbox_field_bytes(octet_length(h.text)));
                CONTINUE;
            END IF;
            EXIT;
        END LOOP;
    END IF;
    IF message IS NULL AND bytes > 10000000 - 512 THEN
        state := 'OX006'; field := 'data';
        message := format('a message of %s bytes with its attributes, at most %s are allowed', bytes, 10000000 - 512);
    END IF;
    IF message IS NOT NULL THEN
        RAISE EXCEPTION '%', coalesce(label || ': ', '') || field || ': ' || message
            USING ERRCODE = state, COLUMN = field;
    END IF;
    RETURN true;
END
$$;
-- +goose StatementEnd

-- One event. aggregate_type NULL means the type's own, aggregate_id may have any
-- type that an aggregate's id has in the caller's tables; id NULL makes one. A
-- dedupe key that is already taken is no error: the answer is the id of the
-- event that has it. The data of a type without an envelope is stored as it is.
-- +goose StatementBegin
CREATE FUNCTION outbox_emit(
    event_type     text,
    aggregate_type text,
    aggregate_id   text,
    data           jsonb,
    dedupe_key     text        DEFAULT NULL,
    tenant_id      uuid        DEFAULT NULL,
    namespace      text        DEFAULT 'default',
    headers        jsonb       DEFAULT NULL,
    occurred_at    timestamptz DEFAULT NULL,
    actor          jsonb       DEFAULT NULL,
    max_attempts   int         DEFAULT NULL,
    INOUT id       uuid        DEFAULT NULL,
    ordering_key   text        DEFAULT NULL,
    OUT already_enqueued boolean
)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    envelope jsonb;
BEGIN
    -- to_char drops BC, and the publisher takes the very first moment for a time that was not set.
    IF occurred_at <= timestamptz '0001-01-01 00:00:00+00' OR occurred_at >= timestamptz '10000-01-01 00:00:00+00' THEN
        RAISE EXCEPTION 'occurred_at: must be within the years 1 to 9999, and not their first moment'
            USING ERRCODE = 'OX004', COLUMN = 'occurred_at';
    END IF;
    id := coalesce(id, @schema@.outbox_uuid_v7());
    IF (occurred_at IS NOT NULL OR actor IS NOT NULL)
       AND EXISTS (SELECT FROM @schema@.outbox_catalogue_type(event_type, coalesce(namespace, 'default')) AS c WHERE c.envelope <> 'standard') THEN
        RAISE EXCEPTION '%: has no place in an event without an envelope', CASE WHEN actor IS NULL THEN 'occurred_at' ELSE 'actor' END
            USING ERRCODE = 'OX004', COLUMN = CASE WHEN actor IS NULL THEN 'occurred_at' ELSE 'actor' END;
    END IF;
    envelope := jsonb_build_object(
        'version', 1,
        'eventId', id,
        'occurredAt', to_char(coalesce(occurred_at, clock_timestamp()) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'data', data);
    -- A null member is an absent one; any other name stays, to be refused.
    IF actor -> 'storeId' = 'null' THEN
        actor := actor - 'storeId';
    END IF;
    IF actor -> 'role' = 'null' THEN
        actor := actor - 'role';
    END IF;
    IF jsonb_typeof(actor) <> 'null' THEN
        envelope := envelope || jsonb_build_object('actor', actor);
    END IF;
    SELECT m.id, m.already_enqueued
      INTO id, already_enqueued
      FROM @schema@.outbox_emit_rows(jsonb_build_array(jsonb_build_object(
               'id', id, 'event_type', event_type, 'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id,
               'payload', envelope, 'dedupe_key', dedupe_key, 'tenant_id', tenant_id, 'namespace', namespace,
               'headers', headers, 'max_attempts', max_attempts, 'ordering_key', ordering_key)), false) AS m;
END
$$;
-- +goose StatementEnd

-- The same for ids that are no text: with the one above alone callers would have
-- to cast theirs. One function of any type would do as well, but then a role that may
-- create here could offer one that fits a uuid better.
-- +goose StatementBegin
DO $do$
DECLARE
    id_type text;
BEGIN
    FOREACH id_type IN ARRAY ARRAY['uuid', 'bigint', 'integer', 'smallint'] LOOP
        EXECUTE format($f$
CREATE FUNCTION outbox_emit(
    event_type     text,
    aggregate_type text,
    aggregate_id   %s,
    data           jsonb,
    dedupe_key     text        DEFAULT NULL,
    tenant_id      uuid        DEFAULT NULL,
    namespace      text        DEFAULT 'default',
    headers        jsonb       DEFAULT NULL,
    occurred_at    timestamptz DEFAULT NULL,
    actor          jsonb       DEFAULT NULL,
    max_attempts   int         DEFAULT NULL,
    INOUT id       uuid        DEFAULT NULL,
    ordering_key   text        DEFAULT NULL,
    OUT already_enqueued boolean
)
    LANGUAGE sql VOLATILE
    AS $$
    SELECT e.id, e.already_enqueued
      FROM @schema@.outbox_emit(event_type, aggregate_type, aggregate_id::text, data, dedupe_key, tenant_id, namespace, headers,
                                occurred_at, actor, max_attempts, id, ordering_key) AS e
$$$f$, id_type);
        EXECUTE format('REVOKE ALL ON FUNCTION outbox_emit(text, text, %s, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text) FROM PUBLIC', id_type);
    END LOOP;
END
$do$;
-- +goose StatementEnd

-- Many events in one round trip: a JSON array of objects with id, event_type,
-- aggregate_type, aggregate_id, payload (the finished envelope, or the data of a
-- type that has none), dedupe_key, tenant_id, namespace, headers, max_attempts,
-- ordering_key or, for an order of aggregates, ordered_by: what comes before the
-- aggregate's id in the key. All or none are written.
-- +goose StatementBegin
CREATE FUNCTION outbox_emit_many(events jsonb)
    RETURNS TABLE (ord int, id uuid, already_enqueued boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF events IS NULL OR jsonb_typeof(events) <> 'array' THEN
        RAISE EXCEPTION 'events: must be a JSON array' USING ERRCODE = 'OX004', COLUMN = 'events';
    END IF;
    RETURN QUERY SELECT m.ord, m.id, m.already_enqueued FROM @schema@.outbox_emit_rows(events, true) AS m;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION outbox_event_rows(events jsonb)
    RETURNS TABLE (id uuid, event_type text, aggregate_type text, aggregate_id text, payload jsonb,
                   dedupe_key text, tenant_id uuid, namespace text, headers jsonb, max_attempts int, ordering_key text, ordered_by text, ord bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT *
      FROM ROWS FROM (jsonb_to_recordset(events) AS (
               id uuid, event_type text, aggregate_type text, aggregate_id text, payload jsonb,
               dedupe_key text, tenant_id uuid, namespace text, headers jsonb, max_attempts int, ordering_key text, ordered_by text)) WITH ORDINALITY
$$;
-- +goose StatementEnd

-- The work behind both. ON CONFLICT without a target waits for a transaction
-- that is inserting the same key; the look-up is a statement of its own, hence
-- sees what that one committed. An event that cleanup removes between the two
-- leaves a gap: then everything is tried again, which rows already written
-- survive. A foreign unique index or trigger leaves the same gap each time, so the
-- tries are few: the producer's transaction is waiting.
-- +goose StatementBegin
CREATE FUNCTION outbox_emit_rows(events jsonb, batch boolean)
    RETURNS TABLE (ord int, id uuid, already_enqueued boolean)
    LANGUAGE plpgsql VOLATILE
    AS $$
#variable_conflict use_column
DECLARE
    written uuid[] := '{}';
    fresh   uuid[];
    answers jsonb;
    clash   text;
    culprit text;
BEGIN
    FOR try IN 1..5 LOOP
        WITH ins AS (
            INSERT INTO @schema@.outbox_events AS o (id, event_type, aggregate_type, aggregate_id, payload_json,
                                            dedupe_key, tenant_id, namespace, headers, max_attempts, ordering_key)
            SELECT r.id, @schema@.outbox_event_type(r.event_type), @schema@.outbox_aggregate_type(c.aggregate_type),
                   @schema@.outbox_aggregate_id(coalesce(r.aggregate_id, '')), p.payload, r.dedupe_key, r.tenant_id, coalesce(r.namespace, 'default'), r.headers, r.max_attempts,
                   coalesce(r.namespace, 'default') || '/' || p.ordering_key
              FROM @schema@.outbox_event_rows(events) AS r
              LEFT JOIN LATERAL @schema@.outbox_catalogue_type(r.event_type, coalesce(r.namespace, 'default')) AS c ON true
             -- A single event comes with an envelope: looking up before whether its type has one would cost as much again.
             CROSS JOIN LATERAL (SELECT CASE WHEN batch OR c.envelope = 'standard' THEN r.payload ELSE r.payload -> 'data' END AS payload,
                    -- As the column prints it: two spellings of an id are one aggregate, hence one key.
                    CASE WHEN r.ordering_key IS NOT NULL OR r.aggregate_id = '' OR coalesce(r.ordered_by, c.ordered_by) IS NULL THEN r.ordering_key
                         ELSE coalesce(r.ordered_by, c.ordered_by) || @schema@.outbox_aggregate_id(r.aggregate_id)::text END AS ordering_key) AS p
             WHERE @schema@.outbox_check_event(CASE WHEN batch THEN 'event ' || r.ord END, r.id, r.event_type, r.aggregate_type,
                       r.aggregate_id, p.payload, r.dedupe_key, r.tenant_id, r.namespace, r.headers, r.max_attempts, c.aggregate_type, c.envelope, p.ordering_key)
               AND (c.former IS NULL OR r.dedupe_key IS NULL
                    OR @schema@.outbox_former_event(c.former, coalesce(r.namespace, 'default'), r.dedupe_key) IS NULL)
             ORDER BY r.ord
                ON CONFLICT DO NOTHING
            RETURNING o.id
        )
        SELECT coalesce(array_agg(i.id), '{}') INTO fresh FROM ins AS i;
        written := written || fresh;

        IF cardinality(written) = jsonb_array_length(events) THEN
            RETURN QUERY
                SELECT e.n::int, (e.event ->> 'id')::uuid, false
                  FROM jsonb_array_elements(events) WITH ORDINALITY AS e(event, n)
                 ORDER BY e.n;
            RETURN;
        END IF;

        -- The first row with an id that was written is new; any other is answered by
        -- the event that holds its dedupe key or, failing that, its id.
        SELECT jsonb_agg(jsonb_build_object('ord', r.ord, 'id', CASE WHEN r.new THEN r.id ELSE held.id END, 'already', NOT r.new)
                         ORDER BY r.ord),
               min(CASE WHEN held.other THEN r.id::text END)
          INTO answers, clash
          FROM (SELECT i.*, i.id = ANY (written) AND row_number() OVER (PARTITION BY i.id ORDER BY i.ord) = 1 AS new
                  FROM @schema@.outbox_event_rows(events) AS i) AS r
          LEFT JOIN LATERAL (
                SELECT o.id, false AS other
                  FROM @schema@.outbox_events AS o
                 WHERE o.dedupe_key = r.dedupe_key AND o.dedupe_key IS NOT NULL
                   AND o.event_type = @schema@.outbox_event_type(r.event_type) AND o.namespace = coalesce(r.namespace, 'default')
                 UNION ALL
                SELECT f.id, false
                  FROM @schema@.outbox_catalogue_type(r.event_type, coalesce(r.namespace, 'default')) AS c,
                       LATERAL (SELECT @schema@.outbox_former_event(c.former, coalesce(r.namespace, 'default'), r.dedupe_key) AS id) AS f
                 WHERE f.id IS NOT NULL
                 UNION ALL
                SELECT o.id, (o.event_type::text, o.aggregate_id, o.namespace, o.dedupe_key)
                             IS DISTINCT FROM (r.event_type, @schema@.outbox_aggregate_id(coalesce(r.aggregate_id, '')),
                                               coalesce(r.namespace, 'default'), r.dedupe_key)
                  FROM @schema@.outbox_events AS o
                 WHERE o.id = r.id
                 LIMIT 1) AS held ON NOT r.new;

        IF clash IS NOT NULL THEN
            RAISE EXCEPTION 'id: % belongs to another event', clash USING ERRCODE = 'OX007', COLUMN = 'id';
        END IF;
        IF NOT answers @> '[{"id": null}]' THEN
            RETURN QUERY
                SELECT a.ord, a.id, a.already
                  FROM jsonb_to_recordset(answers) AS a(ord int, id uuid, already boolean)
                 ORDER BY a.ord;
            RETURN;
        END IF;
    END LOOP;

    SELECT string_agg(c.name, ', ') INTO culprit
      FROM (SELECT 'unique index ' || r.relname AS name
              FROM pg_index AS i
              JOIN pg_class AS r ON r.oid = i.indexrelid
             WHERE i.indrelid = $table$@schema@.outbox_events$table$::regclass
               AND (i.indisunique OR i.indisexclusion) AND NOT i.indisprimary AND r.relname <> 'outbox_events_dedupe_idx'
             UNION ALL
            SELECT 'trigger ' || g.tgname
              FROM pg_trigger AS g
             WHERE g.tgrelid = $table$@schema@.outbox_events$table$::regclass
               AND NOT g.tgisinternal AND g.tgenabled <> 'D' AND g.tgtype & 7 = 7 -- BEFORE INSERT … FOR EACH ROW
               AND g.tgname <> 'outbox_events_refuse_inflated') AS c;
    RAISE EXCEPTION '%', coalesce(CASE WHEN batch THEN 'event ' || (jsonb_path_query_first(answers, '$[*] ? (@.id == null)') ->> 'ord') || ': ' END, '')
            || 'outbox_events did not take the row, although no event has its id or its dedupe key'
        USING ERRCODE = 'OX008', TABLE = 'outbox_events',
              HINT = 'It is kept out by ' || coalesce(culprit, 'a rule or a trigger') || ', which is not outboxctl''s.';
END
$$;
-- +goose StatementEnd

SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_emit(text, text, text, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_emit_many(jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_emit_rows(jsonb, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_event_rows(jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_check_event(text, uuid, text, text, text, jsonb, text, uuid, text, jsonb, int, text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_field_bytes(int) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_catalogue_type(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_former_event(jsonb, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_builtin_aggregate(text) FROM PUBLIC;

-- +goose Down
DROP FUNCTION IF EXISTS outbox_emit_many(jsonb);
DROP FUNCTION IF EXISTS outbox_emit(text, text, uuid, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text);
DROP FUNCTION IF EXISTS outbox_emit(text, text, bigint, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text);
DROP FUNCTION IF EXISTS outbox_emit(text, text, integer, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text);
DROP FUNCTION IF EXISTS outbox_emit(text, text, smallint, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text);
DROP FUNCTION IF EXISTS outbox_emit(text, text, text, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text);
DROP FUNCTION IF EXISTS outbox_emit_rows(jsonb, boolean);
DROP FUNCTION IF EXISTS outbox_event_rows(jsonb);
DROP FUNCTION IF EXISTS outbox_check_event(text, uuid, text, text, text, jsonb, text, uuid, text, jsonb, int, text, text, text);
DROP FUNCTION IF EXISTS outbox_field_bytes(int);
DROP FUNCTION IF EXISTS outbox_former_event(jsonb, text, text);
DROP FUNCTION IF EXISTS outbox_catalogue_type(text, text);
DROP FUNCTION IF EXISTS outbox_builtin_aggregate(text);
DROP TABLE IF EXISTS outbox_catalogue;
DROP TABLE IF EXISTS outbox_event_types;
DROP FUNCTION IF EXISTS outbox_qualify_functions();
