-- Events that cannot be published. A row is the record of one death: event_id
-- repeats when a replayed event dies again.

-- +goose Up

-- Version 7: ids sort by time of creation, so indexes grow at one end. The
-- twelve bits after the version hold the fraction of the millisecond.
-- +goose StatementBegin
CREATE FUNCTION outbox_uuid_v7() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    -- 48 bits of milliseconds, the version, 12 bits of the fraction, random. One expression, parsed here and now: PostgreSQL
    -- puts it in the place of the call, which makes it ten times cheaper.
    RETURN (overlay(lpad(to_hex(floor(date_part('epoch', clock_timestamp()) * 4096000)::bigint), 15, '0') PLACING '7' FROM 13 FOR 0)
            || substr(gen_random_uuid()::text, 20))::uuid;
-- +goose StatementEnd

-- The nth of many that are made at once: the fraction counts on from ticks, the 4,096ths of a millisecond since 1970, and what is
-- random is a hash of one random text and n. Numbers first and digits last takes half as long as texts put together.
CREATE FUNCTION outbox_uuid_v7(ticks bigint, random text, n bigint) RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN encode(int8send(((ticks + n) & -4096) << 4 | ((ticks + n) & 4095 | 28672))
               || int8send(hashtextextended(random, n) & 4611686018427387903 | (-9223372036854775807 - 1)), 'hex')::uuid;
REVOKE ALL ON FUNCTION outbox_uuid_v7(bigint, text, bigint) FROM PUBLIC;

-- One function, and one for lists, for each column whose type differs between
-- installations: text in, that column's own type out. PostgreSQL puts their body in
-- the place of the call, so that event_type = outbox_event_type($1) uses the index
-- whatever the type is; event_type::text = $1 would not. Their body is parsed
-- here and now, so that no name in it is looked up again.
-- +goose StatementBegin
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT a.attname AS name, format_type(a.atttypid, NULL) AS type
          FROM pg_attribute AS a
         WHERE a.attrelid = 'outbox_events'::regclass AND a.attname IN ('event_type', 'aggregate_type', 'aggregate_id')
    LOOP
        EXECUTE format('CREATE FUNCTION outbox_%1$s(value text) RETURNS %2$s LANGUAGE sql STABLE PARALLEL SAFE RETURN value::%2$s', c.name, c.type);
        EXECUTE format('CREATE FUNCTION outbox_%1$s(list text[]) RETURNS %2$s[] LANGUAGE sql STABLE PARALLEL SAFE RETURN list::%2$s[]', c.name, c.type);
    END LOOP;
END
$$;
-- +goose StatementEnd

CREATE TYPE outbox_dlq_reason AS ENUM (
    'max_attempts',
    'unknown_event_type',
    'invalid_payload',
    'aggregate_mismatch',
    'message_too_large',
    'rejected_by_broker',
    'erased',
    'expired'
);

-- The three columns are what they are in outbox_events.
-- +goose StatementBegin
DO $do$
BEGIN
    EXECUTE format($t$
CREATE TABLE outbox_dlq (
    id               uuid                PRIMARY KEY DEFAULT outbox_uuid_v7(),
    event_id         uuid                NOT NULL,
    event_type       %s NOT NULL,
    aggregate_type   %s NOT NULL,
    aggregate_id     %s NOT NULL,
    payload_json     jsonb               NOT NULL,
    headers          jsonb,
    error_reason     outbox_dlq_reason   NOT NULL,
    error_message    text                NOT NULL,
    attempt_count    integer             NOT NULL,
    failed_at        timestamptz         NOT NULL DEFAULT now(),
    namespace        text                NOT NULL DEFAULT 'default',
    tenant_id        uuid,
    topic            text,
    fingerprint      text,
    event_created_at timestamptz,
    -- What follows is all that may change.
    state            text                NOT NULL DEFAULT 'open'
        CONSTRAINT outbox_dlq_state_check CHECK (state IN ('open', 'replayed', 'discarded')),
    state_changed_at timestamptz,
    audit_id         bigint,
    -- The event that was emitted in its place; a corrected dead letter is neither replayed nor restored.
    corrected_by     uuid,
    -- When payload, headers and error message were removed.
    erased_at        timestamptz
)$t$, VARIADIC ARRAY(
        SELECT format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attcollation <> t.typcollation THEN ' COLLATE ' || a.attcollation::regcollation ELSE '' END
          FROM pg_attribute AS a
          JOIN pg_type AS t ON t.oid = a.atttypid
         WHERE a.attrelid = 'outbox_events'::regclass AND a.attname IN ('event_type', 'aggregate_type', 'aggregate_id')
         ORDER BY a.attname DESC));
END
$do$;
-- +goose StatementEnd

-- Lists run newest first, so each index carries the order after its filter:
-- a page is read from one end of it however rare the value is.
CREATE INDEX outbox_dlq_recent_idx ON outbox_dlq (failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_state_idx ON outbox_dlq (state, failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_reason_idx ON outbox_dlq (error_reason, failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_type_idx ON outbox_dlq (event_type, failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_topic_idx ON outbox_dlq (topic, failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_fingerprint_idx ON outbox_dlq (fingerprint, failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_namespace_idx ON outbox_dlq (namespace, failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_tenant_idx ON outbox_dlq (tenant_id, failed_at DESC, id DESC) WHERE tenant_id IS NOT NULL;
CREATE INDEX outbox_dlq_aggregate_idx ON outbox_dlq (aggregate_id, failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_event_idx ON outbox_dlq (event_id, failed_at DESC, id DESC);

-- +goose Down
DROP TABLE IF EXISTS outbox_dlq;
DROP TYPE IF EXISTS outbox_dlq_reason;
DROP FUNCTION IF EXISTS outbox_event_type(text);
DROP FUNCTION IF EXISTS outbox_event_type(text[]);
DROP FUNCTION IF EXISTS outbox_aggregate_type(text);
DROP FUNCTION IF EXISTS outbox_aggregate_type(text[]);
DROP FUNCTION IF EXISTS outbox_aggregate_id(text);
DROP FUNCTION IF EXISTS outbox_aggregate_id(text[]);
DROP FUNCTION IF EXISTS outbox_uuid_v7(bigint, text, bigint);
DROP FUNCTION IF EXISTS outbox_uuid_v7();
