-- Events that cannot be published. A row is the record of one death: event_id
-- repeats when a replayed event dies again.

-- +goose Up

-- Version 7: ids sort by time of creation, so indexes grow at one end. The
-- twelve bits after the version hold the fraction of the millisecond.
-- +goose StatementBegin
CREATE FUNCTION outbox_uuid_v7() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT (lpad(to_hex(micros / 1000), 12, '0')
            || '7' || lpad(to_hex(micros % 1000 * 4096 / 1000), 3, '0')
            || substr(gen_random_uuid()::text, 20))::uuid
      FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros) AS t
$$;
-- +goose StatementEnd

CREATE TYPE outbox_dlq_reason AS ENUM (
    'max_attempts',
    'unknown_event_type',
    'invalid_payload',
    'aggregate_mismatch',
    'message_too_large',
    'rejected_by_broker'
);

CREATE TABLE outbox_dlq (
    id               uuid                PRIMARY KEY DEFAULT outbox_uuid_v7(),
    event_id         uuid                NOT NULL,
    event_type       event_type_enum     NOT NULL,
    aggregate_type   aggregate_type_enum NOT NULL,
    aggregate_id     uuid                NOT NULL,
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
    audit_id         bigint
);

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
DROP FUNCTION IF EXISTS outbox_uuid_v7();
