-- The status of an event is derived, never stored: no column can disagree with
-- another. A lease that ran out is pending again, by the database's clock.

-- +goose Up
CREATE VIEW outbox_event_status AS
SELECT id,
       CASE
           WHEN published_at IS NOT NULL THEN 'published'
           WHEN dead_at IS NOT NULL THEN 'dead'
           WHEN locked_until > now() THEN 'processing'
           ELSE 'pending'
       END AS status,
       seq,
       namespace,
       tenant_id,
       event_type,
       aggregate_type,
       aggregate_id,
       dedupe_key,
       attempt_count,
       max_attempts,
       last_error,
       created_at,
       next_attempt_at,
       locked_by,
       locked_until,
       published_at,
       dead_at,
       broker_message_id,
       updated_at,
       ordering_key,
       passed_at
  FROM outbox_events;

-- +goose Down
DROP VIEW IF EXISTS outbox_event_status;
