-- The catalogue of event types, and emitting by it from any language, by the rules the Go package follows. Refusals
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

-- The event types that `outboxctl registry apply` recorded, one row each. A row
-- of namespace * holds for every namespace that has no row of its own for the
-- type. Any program may read it; only the owner writes. While it is empty the
-- event types are the built-in ones of outbox_packfinderz_aggregate.
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
    -- What else the catalogue says of the type; PostgreSQL reads what the three columns after it take from it.
    options        jsonb            NOT NULL DEFAULT '{}',
    -- How the payload is stored and sent: standard, none, or cloudevents, which has no envelope either.
    form           text             NOT NULL
        GENERATED ALWAYS AS (CASE WHEN options ->> 'cloudEventsSource' IS NULL THEN envelope ELSE 'cloudevents' END) STORED,
    -- What comes before the aggregate's id in the ordering key; NULL where the type keeps no order.
    ordered_by     text
        GENERATED ALWAYS AS (CASE options ->> 'order' WHEN 'aggregate' THEN topic || '/' || aggregate_type || '/' END) STORED,
    -- The names that the type had before; NULL where it had none.
    former         jsonb            GENERATED ALWAYS AS (options -> 'was') STORED,
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
    -- What its destination takes in a message; what is not said is Pub/Sub's.
    limits     jsonb       NOT NULL DEFAULT '{}',
    applied_at timestamptz NOT NULL DEFAULT now(),
    applied_by text        NOT NULL DEFAULT session_user
);
INSERT INTO outbox_catalogue (revision, name) VALUES (0, 'packfinderz');

-- The aggregate of a built-in type; NULL for a text that is none. A constant: eighteen comparisons would be
-- prepared anew in each transaction.
-- +goose StatementBegin
CREATE FUNCTION outbox_packfinderz_aggregate(event_type text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT '{
        "order_created": "checkout_group", "order_state_changed": "vendor_order", "line_item_state_changed": "vendor_order",
        "license_status_changed": "license", "media_uploaded": "media", "payment_settled": "ledger_event",
        "cash_collected": "vendor_order", "vendor_payout_recorded": "ledger_event", "notification_requested": "notification",
        "order_expired": "vendor_order", "order_canceled": "vendor_order", "reservation_released": "vendor_order",
        "ad_created": "ad", "ad_updated": "ad", "ad_paused": "ad",
        "ad_activated": "ad", "ad_expired": "ad", "ad_daily_rollup_ready": "ad"
    }'::jsonb ->> event_type
$$;
-- +goose StatementEnd

-- What the catalogue says of a type, or no row: the recorded one or, while nothing is recorded, the built-in one. outbox_emit_many
-- asks once for each type. outbox_emit asks for the two parts one after the other: starting this plan takes as long as the rest of
-- its work.
-- +goose StatementBegin
CREATE FUNCTION outbox_catalogue_type(event_type text, namespace text)
    RETURNS TABLE (aggregate_type text, form text, ordered_by text, former jsonb)
    LANGUAGE sql STABLE ROWS 1
    AS $$
    (SELECT c.aggregate_type, c.form, c.ordered_by, c.former
       FROM @schema@.outbox_event_types AS c
      WHERE c.event_type = $1 AND c.namespace IN ('*', $2)
      ORDER BY c.namespace = '*'
      LIMIT 1)
     UNION ALL
    SELECT b.aggregate_type, 'standard', NULL, NULL
      FROM (SELECT @schema@.outbox_packfinderz_aggregate($1)) AS b(aggregate_type)
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

-- The rules, one function for each thing they are about. A refusal is its SQLSTATE, the field, what is wrong and, where
-- there is one, a hint; NULL is none. None of these functions raises: the one that was called does, so that an error
-- has no context but that call. Those in SQL are inlined; those in PL/pgSQL are called for what few events have.

-- An actor is an object of strings.
-- +goose StatementBegin
CREATE FUNCTION outbox_actor_fits(actor jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
BEGIN
    RETURN coalesce(jsonb_typeof(actor) = 'object'
        AND actor ->> 'userId' <> '' AND jsonb_typeof(actor -> 'userId') = 'string' AND octet_length(actor ->> 'userId') <= 1024
        AND coalesce(jsonb_typeof(actor -> 'storeId') IN ('string', 'null'), true) AND coalesce(octet_length(actor ->> 'storeId') <= 1024, true)
        AND coalesce(jsonb_typeof(actor -> 'role') IN ('string', 'null'), true) AND coalesce(octet_length(actor ->> 'role') <= 1024, true)
        AND actor - '{userId,storeId,role}'::text[] = '{}', false);
END
$$;
-- +goose StatementEnd

-- What the message weighs. The limits are those of the destination that was configured where the catalogue was recorded, or
-- Pub/Sub's: 10 MB per request, of which 512 bytes are kept for the topic's name; 256 bytes per name and 1,024 per value.
-- All of them take 100 attributes, of which nine are ours, and a payload of nine million bytes or tell only when it is sent.
-- +goose StatementBegin
CREATE FUNCTION outbox_weight_refusal(
    event_type text, expected text, aggregate_id text, payload jsonb, dedupe_key text, tenant_id uuid, namespace text, headers jsonb,
    form text, ordering_key text
) RETURNS text[]
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    -- event_id, and created_at at its longest, are 93 bytes; the others have 16, 20 and 18 besides their text, and those of
    -- more than a hundred bytes two more.
    bytes    int := @schema@.outbox_field_bytes(octet_length(payload::text)) + 93
        + 16 + octet_length(event_type) + CASE WHEN octet_length(event_type) > 100 THEN 2 ELSE 0 END
        + CASE WHEN expected = '' THEN 0 ELSE 20 + octet_length(expected) + CASE WHEN octet_length(expected) > 100 THEN 2 ELSE 0 END
               + 18 + octet_length(aggregate_id) + CASE WHEN octet_length(aggregate_id) > 100 THEN 2 ELSE 0 END END
        + 15 + octet_length(namespace) + CASE WHEN octet_length(namespace) > 100 THEN 2 ELSE 0 END
        + CASE WHEN tenant_id IS NULL THEN 0 ELSE 51 END
        + CASE WHEN dedupe_key IS NULL THEN 0 ELSE 16 + octet_length(dedupe_key) + CASE WHEN octet_length(dedupe_key) > 100 THEN 2 ELSE 0 END END
        -- the seven attributes of a CloudEvent at their longest
        + CASE WHEN form = 'cloudevents' THEN 2048 ELSE 0 END
        -- event_seq at its longest, and the key itself
        + CASE WHEN ordering_key IS NULL THEN 0 ELSE 34 + octet_length(namespace) + 1 + octet_length(ordering_key) END;
    h        record;
    entries  int := 0;
    together int := 0;
    given    jsonb := (SELECT c.limits FROM @schema@.outbox_catalogue AS c);
    size     int := coalesce((given ->> 'messageBytes')::int, 10000000 - 512);
    name     int := coalesce((given ->> 'attributeNameBytes')::int, 256);
    value    int := coalesce((given ->> 'attributeValueBytes')::int, 1024);
    every    int := (given ->> 'attributesBytes')::int;
    reserved text := CASE given WHEN '{}' THEN 'goog' ELSE coalesce(given ->> 'reservedPrefix', '') END;
    most     int := 92 - CASE WHEN ordering_key IS NULL THEN 0 ELSE 1 END - CASE WHEN form = 'cloudevents' THEN 7 ELSE 0 END;
BEGIN
    IF jsonb_typeof(headers) <> 'object' THEN
        RETURN ARRAY['OX004', 'headers', 'must be an object of strings'];
    ELSIF headers IS NOT NULL THEN
        FOR h IN SELECT e.key, e.value #>> '{}' AS text, jsonb_typeof(e.value) AS kind FROM jsonb_each(headers) AS e LOOP
            entries := entries + 1;
            IF h.kind <> 'string' THEN
                RETURN ARRAY['OX004', 'headers', format('value of %L must be a string', left(h.key, 64))];
            ELSIF h.key = '' THEN
                RETURN ARRAY['OX004', 'headers', 'a name must not be empty'];
            ELSIF octet_length(h.key) > name THEN
                RETURN ARRAY['OX006', 'headers', format('name %L must have at most %s bytes', left(h.key, 64), name)];
            ELSIF octet_length(h.text) > value THEN
                RETURN ARRAY['OX006', 'headers', format('value of %L must have at most %s bytes', h.key, value)];
            ELSIF reserved <> '' AND starts_with(lower(h.key), lower(reserved)) THEN
                RETURN ARRAY['OX004', 'headers', format('name %L starts with %s, which the broker keeps for itself', h.key, reserved)];
            ELSIF lower(h.key) IN ('event_id', 'event_type', 'aggregate_type', 'aggregate_id', 'created_at', 'namespace', 'tenant_id', 'dedupe_key', 'event_seq')
                  OR form = 'cloudevents' AND lower(h.key) ~ '^((ce[-_]|cloudevents[_:])(specversion|id|type|source|time|subject)|content-type)$' THEN
                RETURN ARRAY['OX004', 'headers', format('name %L is an attribute the publisher sets', h.key)];
            ELSIF entries > most THEN
                RETURN ARRAY['OX006', 'headers', format('at most %s entries are allowed', most)];
            END IF;
            bytes := bytes + @schema@.outbox_field_bytes(
                @schema@.outbox_field_bytes(octet_length(h.key)) + @schema@.outbox_field_bytes(octet_length(h.text)));
            together := together + octet_length(h.key) + octet_length(h.text);
        END LOOP;
    END IF;
    IF together > every THEN
        RETURN ARRAY['OX006', 'headers', format('%s bytes together, at most %s are allowed', together, every)];
    ELSIF bytes > size THEN
        RETURN ARRAY['OX006', 'data', format('a message of %s bytes with its attributes, at most %s are allowed', bytes, size),
                     'Store what is large elsewhere, and send where it is.'];
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- An event's own fields. expected and form are what the catalogue says of the type; NULL if it has none. data is what
-- the event says, payload what is stored of it. Without headers only a payload of megabytes can be too large;
-- one of less than a megabyte cannot be nine when it is printed, or outbox_refuse_inflated has it.
-- +goose StatementBegin
CREATE FUNCTION outbox_refusal(
    id uuid, event_type text, aggregate_type text, aggregate_id text, data jsonb, payload jsonb,
    dedupe_key text, tenant_id uuid, namespace text, headers jsonb, occurred_at timestamptz, actor jsonb, max_attempts int,
    expected text, form text, ordering_key text, deliver_at timestamptz
) RETURNS text[]
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE
        WHEN expected IS NULL THEN
            ARRAY['OX001', 'event_type', format('unknown event type %L', left(event_type, 80)),
                  'Add it to the catalogue and record that with outboxctl registry apply.']
        WHEN aggregate_type <> expected THEN
            ARRAY['OX002', 'aggregate_type', format('%s belongs to aggregate %s, not to %L', event_type, expected, left(aggregate_type, 80)),
                  'Leave it out: it is the type''s own then.']
        WHEN id IS NULL OR id = '00000000-0000-0000-0000-000000000000' THEN
            ARRAY['OX004', 'id', 'must be set']
        WHEN expected = '' AND aggregate_id <> '' THEN
            ARRAY['OX004', 'aggregate_id', format('must be left out: %s is about no aggregate', event_type)]
        WHEN expected <> '' AND coalesce(aggregate_id, '') IN ('', '00000000-0000-0000-0000-000000000000') THEN
            ARRAY['OX004', 'aggregate_id', 'must be set']
        WHEN octet_length(aggregate_id) > 255 THEN
            ARRAY['OX004', 'aggregate_id', 'must have at most 255 bytes']
        WHEN octet_length(namespace) NOT BETWEEN 1 AND 255 THEN
            ARRAY['OX004', 'namespace', 'must have 1 to 255 bytes']
        WHEN octet_length(dedupe_key) NOT BETWEEN 1 AND 1024 THEN
            ARRAY['OX004', 'dedupe_key', 'must have 1 to 1024 bytes']
        WHEN tenant_id IS NOT NULL AND NOT starts_with(dedupe_key, tenant_id::text || '/') THEN
            ARRAY['OX005', 'dedupe_key', format('must start with the tenant: %s/', tenant_id), 'No tenant can take another''s key then.']
        WHEN ordering_key IS NOT NULL AND (ordering_key = '' OR octet_length(namespace) + 1 + octet_length(ordering_key) > 1024) THEN
            ARRAY['OX004', 'ordering_key', 'must have 1 to 1024 bytes with its namespace']
        WHEN max_attempts < 1 THEN
            ARRAY['OX004', 'max_attempts', 'must be at least 1']
        WHEN NOT isfinite(deliver_at) OR deliver_at >= '10000-01-01 00:00:00+00' THEN
            ARRAY['OX004', 'deliver_at', 'must be before the year 10000', 'Is it a number of milliseconds that was read as seconds?']
        -- to_char drops BC, and the publisher takes the very first moment for a time that was not set.
        WHEN occurred_at <= '0001-01-01 00:00:00+00' OR occurred_at >= '10000-01-01 00:00:00+00' THEN
            ARRAY['OX004', 'occurred_at', 'must be within the years 1 to 9999, and not their first moment']
        WHEN (actor IS NOT NULL OR occurred_at IS NOT NULL) AND form <> 'standard' THEN
            ARRAY['OX004', CASE WHEN actor IS NULL THEN 'occurred_at' ELSE 'actor' END, 'has no place in an event without an envelope']
        WHEN coalesce(data, 'null') = 'null' THEN
            ARRAY['OX003', 'data', 'must not be null ({} is allowed)']
        WHEN actor IS NOT NULL AND NOT @schema@.outbox_actor_fits(actor) THEN
            ARRAY['OX004', 'actor', 'must be an object of strings of at most 1024 bytes: userId and, if known, storeId and role']
        WHEN headers IS NOT NULL OR pg_column_size(payload) > 1000000 AND octet_length(payload::text) > 9000000 THEN
            @schema@.outbox_weight_refusal(event_type, expected, aggregate_id, payload, dedupe_key, tenant_id, namespace, headers, form, ordering_key)
    END
$$;
-- +goose StatementEnd

-- A finished envelope.
-- +goose StatementBegin
CREATE FUNCTION outbox_envelope_refusal(id uuid, payload jsonb) RETURNS text[]
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE
        WHEN jsonb_typeof(payload) IS DISTINCT FROM 'object' THEN
            ARRAY['OX004', 'payload', 'must be the envelope, a JSON object']
        WHEN coalesce(payload -> 'data', 'null') = 'null' THEN
            ARRAY['OX003', 'data', 'must not be null ({} is allowed)']
        WHEN payload -> 'version' IS DISTINCT FROM '1' OR payload ->> 'eventId' IS DISTINCT FROM id::text
             OR payload - '{version,eventId,occurredAt,actor,data}'::text[] <> '{}' THEN
            ARRAY['OX004', 'payload', format('must be the envelope: version 1, eventId %s, occurredAt, actor, data, and no more', id),
                  'Give data instead of payload, and the envelope is made for you.']
        -- The usual form first, with its seven separators where they belong and no other: a regular expression takes longer.
        WHEN (payload ->> 'occurredAt' LIKE '____-__-__T__:__:__._%Z' AND translate(payload ->> 'occurredAt', '-0123456789', '/') = '//T::.Z') IS NOT TRUE
             AND coalesce(payload ->> 'occurredAt', '') !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$' THEN
            ARRAY['OX004', 'payload', 'envelope occurredAt must be an RFC 3339 timestamp']
    END
$$;
-- +goose StatementEnd

-- A null member of an actor is an absent one; any other name stays, to be refused.
-- +goose StatementBegin
CREATE FUNCTION outbox_actor(actor jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
BEGIN
    IF actor -> 'storeId' = 'null' THEN
        actor := actor - 'storeId';
    END IF;
    IF actor -> 'role' = 'null' THEN
        actor := actor - 'role';
    END IF;
    RETURN nullif(actor, 'null');
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION outbox_moment(at timestamptz) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION outbox_envelope(id uuid, occurred_at text, data jsonb) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$ SELECT jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', occurred_at, 'data', data) $$;
-- +goose StatementEnd

-- Whose the dedupe key is or, failing that, the id; no row where nobody has either. other is true when the id is that of
-- another event.
-- +goose StatementBegin
CREATE FUNCTION outbox_holder(id uuid, event_type text, aggregate_id text, namespace text, dedupe_key text, former jsonb)
    RETURNS TABLE (holder uuid, other boolean)
    LANGUAGE sql STABLE ROWS 1
    AS $$
    SELECT o.id, false
      FROM @schema@.outbox_events AS o
     WHERE o.dedupe_key = $5 AND o.dedupe_key IS NOT NULL AND o.event_type = @schema@.outbox_event_type($2) AND o.namespace = $4
     UNION ALL
    SELECT f.id, false FROM (SELECT @schema@.outbox_former_event($6, $4, $5)) AS f(id) WHERE f.id IS NOT NULL
     UNION ALL
    SELECT o.id, (o.event_type::text, o.aggregate_id, o.namespace, o.dedupe_key)
                 IS DISTINCT FROM ($2, @schema@.outbox_aggregate_id(coalesce($3, '')), $4, $5)
      FROM @schema@.outbox_events AS o
     WHERE o.id = $1
     LIMIT 1
$$;
-- +goose StatementEnd

-- What on the table is not outboxctl's and may keep a row out without an error.
-- +goose StatementBegin
CREATE FUNCTION outbox_kept_out_by() RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT 'It is kept out by ' || coalesce(string_agg(c.name, ', '), 'a rule or a trigger') || ', which is not outboxctl''s.'
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
               AND g.tgname <> 'outbox_events_refuse_inflated') AS c
$$;
-- +goose StatementEnd

-- The headers with the trace that the session's transaction belongs to: set_config('outboxctl.traceparent', …, true). One that is
-- malformed is left out, because no trace is worth an event.
CREATE FUNCTION outbox_traced(headers jsonb) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN current_setting('outboxctl.traceparent', true) ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
                     AND coalesce(jsonb_typeof(headers) = 'object' AND NOT headers ? 'traceparent', true)
                THEN coalesce(headers, '{}') || jsonb_build_object('traceparent', current_setting('outboxctl.traceparent', true))
                ELSE headers END;

-- One event. aggregate_type NULL means the type's own, aggregate_id may have any
-- type that an aggregate's id has in the caller's tables; id NULL makes one. A
-- dedupe key that is already taken is no error: the answer is the id of the
-- event that has it. The data of a type without an envelope is stored as it is.
--
-- There is one function for each type of ids, so that no caller has to cast. One function of any type
-- would do as well, but then a role that may create here could offer one that fits a uuid better; and one that hands
-- over to another would cost as much as half the INSERT.
--
-- ON CONFLICT without a target waits for a transaction that is inserting the same key; the look at who has it is a
-- statement of its own, hence sees what that one committed. An event that cleanup removes between the two leaves a gap:
-- then it is tried again. A foreign unique index or trigger leaves the same gap each time, so the
-- tries are few: the producer's transaction is waiting.
-- +goose StatementBegin
DO $do$
DECLARE
    id_type text;
BEGIN
    FOREACH id_type IN ARRAY ARRAY['text', 'uuid', 'bigint', 'integer', 'smallint'] LOOP
        EXECUTE replace(replace($f$
CREATE FUNCTION outbox_emit(
    event_type     text,
    aggregate_type text,
    aggregate_id   <id>,
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
    deliver_at     timestamptz DEFAULT NULL,
    OUT already_enqueued boolean
)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    about      text;
    -- As the columns have them; assigned, so that an id that is none is an error of this line and not of a long statement.
    kind       @schema@.outbox_events.event_type%TYPE;
    subject    @schema@.outbox_events.aggregate_type%TYPE;
    subject_id @schema@.outbox_events.aggregate_id%TYPE;
    expected   text;
    form       text;
    ordered_by text;
    former     jsonb;
    payload    jsonb;
    refusal    text[];
    held       uuid;
    other      boolean;
BEGIN
    SELECT c.aggregate_type, c.form, c.ordered_by, c.former
      INTO expected, form, ordered_by, former
      FROM @schema@.outbox_event_types AS c
     WHERE c.event_type = outbox_emit.event_type AND c.namespace IN ('*', coalesce(outbox_emit.namespace, 'default'))
     ORDER BY c.namespace = '*'
     LIMIT 1;
    IF NOT FOUND THEN
        SELECT @schema@.outbox_packfinderz_aggregate(event_type), 'standard' INTO expected, form
         WHERE NOT EXISTS (SELECT FROM @schema@.outbox_event_types);
    END IF;
    id := coalesce(id, @schema@.outbox_uuid_v7());
    -- PL/pgSQL starts every expression anew in each transaction, which takes longer than to evaluate it. An event that has
    -- nothing that the rules could refuse is told by one expression, and meets few others.
    IF form = 'standard' AND expected <> '' AND data <> 'null' AND pg_column_size(data) < 900000 AND <plain>
       AND num_nonnulls(aggregate_type, tenant_id, headers, occurred_at, actor, max_attempts, ordering_key, deliver_at, ordered_by, former,
                        nullif(current_setting('outboxctl.traceparent', true), '')) = 0
       AND id <> '00000000-0000-0000-0000-000000000000' AND octet_length(namespace) BETWEEN 1 AND 255
       AND coalesce(octet_length(dedupe_key), 1) BETWEEN 1 AND 1024 THEN
        payload := @schema@.outbox_envelope(id, @schema@.outbox_moment(clock_timestamp()), data);
        subject_id := aggregate_id;
    ELSE
        about := aggregate_id;
        namespace := coalesce(namespace, 'default');
        headers := @schema@.outbox_traced(headers);
        payload := CASE form WHEN 'standard' THEN @schema@.outbox_envelope(id, @schema@.outbox_moment(coalesce(occurred_at, clock_timestamp())), data)
                   ELSE data END;
        IF actor IS NOT NULL THEN
            actor := @schema@.outbox_actor(actor);
            payload := payload || CASE WHEN actor IS NULL THEN '{}' ELSE jsonb_build_object('actor', actor) END;
        END IF;
        IF ordered_by IS NOT NULL AND ordering_key IS NULL AND about <> '' THEN
            -- As the column prints it: two spellings of an id are one aggregate, hence one key.
            ordering_key := ordered_by || @schema@.outbox_aggregate_id(about);
        END IF;
        refusal := @schema@.outbox_refusal(id, event_type, aggregate_type, about, data, payload, dedupe_key, tenant_id, namespace, headers,
                                           occurred_at, actor, max_attempts, expected, form, ordering_key, deliver_at);
        IF refusal IS NOT NULL THEN
            RAISE EXCEPTION '%', refusal[2] || ': ' || refusal[3]
                USING ERRCODE = refusal[1], COLUMN = refusal[2],
                      HINT = coalesce(refusal[4], format('outboxctl registry show %s prints a call that fits.', event_type));
        END IF;
        subject_id := coalesce(about, '');
        IF former IS NOT NULL AND dedupe_key IS NOT NULL THEN
            held := @schema@.outbox_former_event(former, namespace, dedupe_key);
            IF held IS NOT NULL THEN
                id := held;
                already_enqueued := true;
                RETURN;
            END IF;
        END IF;
        ordering_key := namespace || '/' || ordering_key;
    END IF;
    kind := event_type;
    subject := expected;
    FOR try IN 1..5 LOOP
        INSERT INTO @schema@.outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json,
                                            dedupe_key, tenant_id, namespace, headers, max_attempts, ordering_key, deliver_at, next_attempt_at)
        VALUES (id, kind, subject, subject_id, payload,
                dedupe_key, tenant_id, namespace, headers, max_attempts, ordering_key, deliver_at, coalesce(deliver_at, now()))
            ON CONFLICT DO NOTHING;
        already_enqueued := NOT FOUND;
        IF NOT already_enqueued THEN
            RETURN;
        END IF;
        SELECT h.holder, h.other
          INTO held, other
          FROM @schema@.outbox_holder(id, event_type, aggregate_id::text, namespace, dedupe_key, former) AS h;
        IF other THEN
            RAISE EXCEPTION 'id: % belongs to another event', id
                USING ERRCODE = 'OX007', COLUMN = 'id', HINT = 'Leave the id out, and one is made.';
        ELSIF held IS NOT NULL THEN
            id := held;
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'outbox_events did not take the row, although no event has its id or its dedupe key'
        USING ERRCODE = 'OX008', TABLE = 'outbox_events', HINT = @schema@.outbox_kept_out_by();
END
$$$f$, '<id>', id_type), '<plain>', CASE id_type
            WHEN 'text' THEN $q$octet_length(aggregate_id) BETWEEN 1 AND 255 AND aggregate_id <> '00000000-0000-0000-0000-000000000000'$q$
            WHEN 'uuid' THEN $q$aggregate_id <> '00000000-0000-0000-0000-000000000000'$q$
            ELSE 'aggregate_id IS NOT NULL' END);
        EXECUTE format('REVOKE ALL ON FUNCTION outbox_emit(text, text, %s, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) FROM PUBLIC', id_type);
    END LOOP;
END
$do$;
-- +goose StatementEnd

-- Whether the column takes an aggregate's id: an error of the INSERT itself would show the whole statement.
-- +goose StatementBegin
DO $do$
DECLARE
    type text := (SELECT format_type(a.atttypid, NULL) FROM pg_attribute AS a WHERE a.attrelid = 'outbox_events'::regclass AND a.attname = 'aggregate_id');
BEGIN
    EXECUTE format('CREATE FUNCTION outbox_aggregate_id_fits(value text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN ' || CASE type
        -- The usual spelling is told by where its dashes are, and by an expression that goes over one class: PostgreSQL builds
        -- the states of an expression anew in each call, so one that counts takes ten times as long.
        WHEN 'uuid' THEN $q$value LIKE '________-____-____-____-____________' AND value ~ '^[0-9A-Fa-f-]*$' AND octet_length(replace(value, '-', '')) = 32
                            OR value ~* '^\{?[0-9a-f]{4}(-?[0-9a-f]{4}){7}\}?$'$q$
        WHEN 'bigint' THEN $q$value ~ '^\s*[+-]?\d\w*\s*$'$q$ WHEN 'integer' THEN $q$value ~ '^\s*[+-]?\d\w*\s*$'$q$
        ELSE 'value IS NOT NULL' END);
END
$do$;
-- +goose StatementEnd

-- The events of an array as they are to be stored, in its order, each with what is wrong with it. One without an id gets that of
-- ticks and random, the same in each call; types says of each namespace and type what the catalogue says of it; envelope is that
-- of an event of now, to be filled in: building one anew takes half as long again.
-- +goose StatementBegin
CREATE FUNCTION outbox_event_rows(events jsonb, ticks bigint, random text, types jsonb, envelope jsonb)
    RETURNS TABLE (ord bigint, id uuid, event_type text, aggregate_id text, payload jsonb, dedupe_key text, tenant_id uuid, namespace text,
                   headers jsonb, max_attempts int, expected text, former jsonb, ordering_key text, deliver_at timestamptz, refusal text[])
    LANGUAGE sql STABLE ROWS 100
    AS $$
    SELECT e.ord, e.id, e.event_type, e.aggregate_id, e.payload, e.dedupe_key, e.tenant_id, e.namespace, e.headers, e.max_attempts,
           e.expected, e.former, e.ordering_key, e.deliver_at,
           coalesce(CASE WHEN e.finished AND e.form = 'standard' THEN @schema@.outbox_envelope_refusal(e.id, e.payload) END,
                    @schema@.outbox_refusal(e.id, e.event_type, e.aggregate_type, e.aggregate_id, e.data, e.payload, e.dedupe_key, e.tenant_id,
                        e.namespace, e.headers, e.occurred_at, e.actor, e.max_attempts, e.expected, e.form, e.ordering_key, e.deliver_at),
                    CASE WHEN e.aggregate_id <> '' AND NOT @schema@.outbox_aggregate_id_fits(e.aggregate_id) THEN
                        ARRAY['22P02', 'aggregate_id', format('%L is none that the table can store', left(e.aggregate_id, 80))] END)
      FROM (SELECT r.ord, r.id, r.event_type, r.aggregate_type, r.aggregate_id, r.dedupe_key, r.tenant_id, r.namespace,
                   @schema@.outbox_traced(r.headers) AS headers, r.max_attempts, r.occurred_at, r.deliver_at, r.expected, r.form,
                   r.type -> 'former' AS former, r.payload IS NOT NULL AS finished,
                   CASE WHEN r.payload IS NULL THEN r.data WHEN r.form = 'standard' THEN r.payload -> 'data' ELSE r.payload END AS data,
                   CASE WHEN r.payload IS NULL THEN CASE WHEN r.actor IS NOT NULL THEN @schema@.outbox_actor(r.actor) END
                        WHEN r.form = 'standard' THEN nullif(r.payload -> 'actor', 'null') END AS actor,
                   CASE WHEN r.payload IS NOT NULL THEN r.payload WHEN r.form <> 'standard' THEN r.data
                        WHEN r.actor IS NULL AND r.occurred_at IS NULL THEN
                             jsonb_set(jsonb_set($5, '{eventId}', to_jsonb(r.id::text)), '{data}', r.data)
                        ELSE @schema@.outbox_envelope(r.id, coalesce(@schema@.outbox_moment(r.occurred_at), $5 ->> 'occurredAt'), r.data)
                             || CASE WHEN r.actor IS NULL THEN '{}' ELSE jsonb_build_object('actor', @schema@.outbox_actor(r.actor)) END END AS payload,
                   -- As the column prints it: two spellings of an id are one aggregate, hence one key.
                   CASE WHEN r.ordering_key IS NOT NULL OR coalesce(r.ordered_by, r.type ->> 'ordered_by') IS NULL
                             OR r.aggregate_id = '' OR NOT @schema@.outbox_aggregate_id_fits(r.aggregate_id) THEN r.ordering_key
                        ELSE coalesce(r.ordered_by, r.type ->> 'ordered_by') || @schema@.outbox_aggregate_id(r.aggregate_id)::text END AS ordering_key
              FROM (SELECT g.*, g.type ->> 'aggregate_type' AS expected, g.type ->> 'form' AS form
                      FROM (SELECT n.event_type, n.aggregate_type, n.aggregate_id, n.data, n.payload, n.dedupe_key, n.tenant_id, coalesce(n.namespace, 'default') AS namespace,
                                   n.headers, n.occurred_at, n.actor, n.max_attempts, n.ordering_key, n.ordered_by, n.deliver_at, n.ord,
                                   coalesce(n.id, @schema@.outbox_uuid_v7($2, $3, n.ord)) AS id, $4 -> coalesce(n.namespace, 'default') -> n.event_type AS type
                              FROM ROWS FROM (jsonb_to_recordset($1) AS (
                                       event_type text, aggregate_type text, aggregate_id text, data jsonb, payload jsonb, dedupe_key text, tenant_id uuid, namespace text,
                                       headers jsonb, occurred_at timestamptz, actor jsonb, max_attempts int, ordering_key text, ordered_by text, deliver_at timestamptz, id uuid)) WITH ORDINALITY
                                   AS n(event_type, aggregate_type, aggregate_id, data, payload, dedupe_key, tenant_id, namespace,
                                        headers, occurred_at, actor, max_attempts, ordering_key, ordered_by, deliver_at, id, ord)
                             ORDER BY n.ord
                            OFFSET 0) AS g
                    OFFSET 0) AS r
            OFFSET 0) AS e
$$;
-- +goose StatementEnd

-- The first member of an array that is no event, and why: read where the array could not be read as a whole.
-- +goose StatementBegin
CREATE FUNCTION outbox_unreadable(events jsonb, OUT ord int, OUT field text, OUT reason text)
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    event jsonb;
BEGIN
    FOR ord, event IN SELECT e.n, e.value FROM jsonb_array_elements(events) WITH ORDINALITY AS e(value, n) LOOP
        field := 'events';
        reason := 'must be an object';
        EXIT WHEN jsonb_typeof(event) <> 'object';
        FOREACH field IN ARRAY '{id,tenant_id,occurred_at,max_attempts,deliver_at}'::text[] LOOP
            reason := format('%L cannot be read', left(event ->> field, 80));
            PERFORM FROM jsonb_to_record(jsonb_build_object(field, event -> field))
                      AS f(id uuid, tenant_id uuid, occurred_at timestamptz, max_attempts int, deliver_at timestamptz);
        END LOOP;
    END LOOP;
EXCEPTION WHEN data_exception THEN
    RETURN;
END
$$;
-- +goose StatementEnd

-- Many events in one round trip: a JSON array of objects with the arguments of
-- outbox_emit as their names. Instead of data, occurred_at and actor one may have
-- payload: the finished envelope of its id, or the data of a type that has none;
-- and instead of ordering_key, for an order of aggregates, ordered_by: what comes before the
-- aggregate's id in the key. All or none are written.
-- +goose StatementBegin
CREATE FUNCTION outbox_emit_many(events jsonb)
    RETURNS TABLE (ord int, id uuid, already_enqueued boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    now     timestamptz := clock_timestamp();
    frame   jsonb := @schema@.outbox_envelope(NULL::uuid, @schema@.outbox_moment(now), NULL::jsonb);
    ticks   bigint := floor(date_part('epoch', now) * 4096000);
    random  text := gen_random_uuid();
    types   jsonb;
    written uuid[] := '{}';
    fresh   uuid[];
    answers jsonb;
    clash   text;
    wrong   record;
BEGIN
    IF events IS NULL OR jsonb_typeof(events) <> 'array' THEN
        RAISE EXCEPTION 'events: must be a JSON array' USING ERRCODE = 'OX004', COLUMN = 'events', HINT = 'One object for each event.';
    END IF;
    -- Every field that may be unreadable is read here: in the INSERT its error would show the whole statement. What only
    -- reads needs no id of a subtransaction.
    BEGIN
        types := (SELECT jsonb_object_agg(n.namespace, n.types)
                    FROM (SELECT t.namespace, jsonb_object_agg(t.event_type, jsonb_strip_nulls(to_jsonb(c))) AS types
                            FROM (SELECT DISTINCT e.event_type, coalesce(e.namespace, 'default')
                                    FROM jsonb_to_recordset(events) AS e(event_type text, namespace text, id uuid, tenant_id uuid,
                                         occurred_at timestamptz, max_attempts int, deliver_at timestamptz)) AS t(event_type, namespace)
                           CROSS JOIN @schema@.outbox_catalogue_type(t.event_type, t.namespace) AS c
                           GROUP BY t.namespace) AS n);
    EXCEPTION WHEN data_exception THEN
        SELECT u.ord, u.field, u.reason INTO wrong FROM @schema@.outbox_unreadable(events) AS u;
        RAISE EXCEPTION 'event %: %: %', wrong.ord, wrong.field, wrong.reason
            USING ERRCODE = 'OX004', COLUMN = wrong.field, HINT = 'One object for each event, with the arguments of outbox_emit as its names.';
    END;
    FOR try IN 1..5 LOOP
        WITH ins AS (
            INSERT INTO @schema@.outbox_events AS o (id, event_type, aggregate_type, aggregate_id, payload_json,
                                            dedupe_key, tenant_id, namespace, headers, max_attempts, ordering_key, deliver_at, next_attempt_at)
            SELECT r.id, @schema@.outbox_event_type(r.event_type), @schema@.outbox_aggregate_type(r.expected),
                   @schema@.outbox_aggregate_id(coalesce(r.aggregate_id, '')), r.payload, r.dedupe_key, r.tenant_id, r.namespace, r.headers, r.max_attempts,
                   r.namespace || '/' || r.ordering_key, r.deliver_at, coalesce(r.deliver_at, now())
              FROM @schema@.outbox_event_rows(events, ticks, random, types, frame) AS r
             WHERE r.refusal IS NULL
               AND (r.former IS NULL OR r.dedupe_key IS NULL OR @schema@.outbox_former_event(r.former, r.namespace, r.dedupe_key) IS NULL)
                ON CONFLICT DO NOTHING
            RETURNING o.id
        )
        SELECT coalesce(array_agg(i.id), '{}') INTO fresh FROM ins AS i;
        -- All of them, in their order.
        IF cardinality(fresh) = jsonb_array_length(events) THEN
            RETURN QUERY SELECT e.n::int, e.id, false FROM unnest(fresh) WITH ORDINALITY AS e(id, n) ORDER BY e.n;
            RETURN;
        END IF;
        written := written || fresh;

        SELECT r.ord, r.event_type, r.refusal INTO wrong
          FROM @schema@.outbox_event_rows(events, ticks, random, types, frame) AS r
         WHERE r.refusal IS NOT NULL
         ORDER BY r.ord
         LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION '%', 'event ' || wrong.ord || ': ' || wrong.refusal[2] || ': ' || wrong.refusal[3]
                USING ERRCODE = wrong.refusal[1], COLUMN = wrong.refusal[2],
                      HINT = coalesce(wrong.refusal[4], format('outboxctl registry show %s prints a call that fits.', wrong.event_type));
        END IF;

        -- The first row with an id that was written is new; any other is answered by
        -- the event that holds its dedupe key or, failing that, its id.
        SELECT jsonb_agg(jsonb_build_object('ord', r.ord, 'id', CASE WHEN r.new THEN r.id ELSE held.holder END, 'already', NOT r.new)
                         ORDER BY r.ord),
               min(CASE WHEN held.other THEN 'event ' || r.ord || ': id: ' || r.id END)
          INTO answers, clash
          FROM (SELECT i.*, i.id = ANY (written) AND row_number() OVER (PARTITION BY i.id ORDER BY i.ord) = 1 AS new
                  FROM @schema@.outbox_event_rows(events, ticks, random, types, frame) AS i) AS r
          LEFT JOIN LATERAL @schema@.outbox_holder(r.id, r.event_type, r.aggregate_id, r.namespace, r.dedupe_key, r.former) AS held ON NOT r.new;

        IF clash IS NOT NULL THEN
            RAISE EXCEPTION '% belongs to another event', clash
                USING ERRCODE = 'OX007', COLUMN = 'id', HINT = 'Leave the id out, and one is made.';
        END IF;
        IF NOT answers @> '[{"id": null}]' THEN
            RETURN QUERY
                SELECT a.ord, a.id, a.already
                  FROM jsonb_to_recordset(answers) AS a(ord int, id uuid, already boolean)
                 ORDER BY a.ord;
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION '%', 'event ' || (jsonb_path_query_first(answers, '$[*] ? (@.id == null)') ->> 'ord')
            || ': outbox_events did not take the row, although no event has its id or its dedupe key'
        USING ERRCODE = 'OX008', TABLE = 'outbox_events', HINT = @schema@.outbox_kept_out_by();
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION outbox_emit_many, outbox_refusal, outbox_envelope_refusal, outbox_envelope, outbox_actor_fits, outbox_actor, outbox_moment,
    outbox_traced, outbox_weight_refusal, outbox_aggregate_id_fits, outbox_event_rows, outbox_unreadable, outbox_holder, outbox_kept_out_by,
    outbox_field_bytes, outbox_catalogue_type, outbox_former_event, outbox_packfinderz_aggregate FROM PUBLIC;
