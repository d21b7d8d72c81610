-- A lease is a row of its own: which events, by their seq, which publisher has, and until when. No event is written to
-- lease it. No event is ever named by two leases; the end of a lease only allows a claim to delete it, which charges its
-- events with an attempt. The status of an event is derived, never stored: no column can disagree with another.

-- +goose Up

-- The table has few rows and turns over all the time: vacuum has to come often, and costs nothing.
CREATE TABLE outbox_leases (
    id    bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner uuid           NOT NULL,
    since timestamptz    NOT NULL DEFAULT now(),
    until timestamptz    NOT NULL,
    seqs  int8multirange NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000000000);

-- Every claim asks which leases name its rows. Where an old transaction keeps vacuum away, leases that are long over pile
-- up by the thousand; by this index they are not met.
CREATE INDEX outbox_leases_seqs_idx ON outbox_leases USING gist (seqs);

CREATE VIEW outbox_event_status AS
SELECT e.id,
       CASE
           WHEN e.published_at IS NOT NULL THEN 'published'
           WHEN e.dead_at IS NOT NULL THEN 'dead'
           WHEN l.until > now() THEN 'processing'
           ELSE 'pending'
       END AS status,
       e.seq,
       e.namespace,
       e.tenant_id,
       e.event_type,
       e.aggregate_type,
       e.aggregate_id,
       e.dedupe_key,
       e.attempt_count,
       e.max_attempts,
       e.last_error,
       e.created_at,
       e.next_attempt_at,
       l.owner AS locked_by,
       l.until AS locked_until,
       e.published_at,
       e.dead_at,
       e.broker_message_id,
       e.ordering_key,
       e.passed_at,
       e.erased_at
  FROM outbox_events AS e
  LEFT JOIN LATERAL (SELECT o.owner, o.until
                       FROM outbox_leases AS o
                      WHERE e.published_at IS NULL AND e.dead_at IS NULL AND o.seqs @> e.seq
                      LIMIT 1) AS l ON true;

-- +goose Down
DROP VIEW IF EXISTS outbox_event_status;
DROP TABLE IF EXISTS outbox_leases;
