package outbox

// None of these but selectContent reads payload_json or headers: a viewer may not.

const eventColumns = `e.id::text AS id, e.seq, e.event_type::text AS event_type, e.aggregate_type::text AS aggregate_type,
       e.aggregate_id::text AS aggregate_id, e.status, e.namespace, e.tenant_id::text AS tenant_id, e.dedupe_key, e.attempt_count,
       e.max_attempts, e.last_error, e.created_at, e.next_attempt_at, e.locked_by::text AS locked_by, e.locked_until, e.published_at,
       e.dead_at, e.broker_message_id, e.updated_at, e.ordering_key, e.passed_at`

// By primary key, in the caller's order.
const selectEvents = `
SELECT ` + eventColumns + `
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  JOIN outbox_event_status AS e ON e.id = w.id
 ORDER BY w.ord`

// Reads what the event carries.
const selectContent = `SELECT payload_json::text, headers::text FROM outbox_events WHERE id = $1::uuid`

// By outbox_events_aggregate_idx. Events of one transaction share created_at; seq orders those.
const selectNeighbours = `
WITH pivot AS (
    SELECT coalesce((SELECT p.created_at FROM outbox_events AS p WHERE p.id = $3::uuid), $4::timestamptz) AS created_at,
           coalesce((SELECT p.seq FROM outbox_events AS p WHERE p.id = $3::uuid), 0) AS seq
), near AS (
    (SELECT e.id, e.created_at, e.seq
       FROM outbox_events AS e, pivot AS p
      WHERE e.aggregate_type = outbox_aggregate_type($1::text) AND e.aggregate_id = outbox_aggregate_id($2::text) AND e.id <> $3::uuid
        AND (e.created_at, e.seq) < (p.created_at, p.seq)
      ORDER BY e.created_at DESC, e.seq DESC LIMIT $5)
    UNION ALL
    (SELECT e.id, e.created_at, e.seq
       FROM outbox_events AS e, pivot AS p
      WHERE e.aggregate_type = outbox_aggregate_type($1::text) AND e.aggregate_id = outbox_aggregate_id($2::text) AND e.id <> $3::uuid
        AND (e.created_at, e.seq) > (p.created_at, p.seq)
      ORDER BY e.created_at, e.seq LIMIT $5)
)
SELECT ` + eventColumns + `
  FROM near AS n
  JOIN outbox_event_status AS e ON e.id = n.id
 ORDER BY e.created_at, e.seq`

const selectEnum = `SELECT enumlabel::text FROM pg_enum WHERE enumtypid = to_regtype($1) ORDER BY enumsortorder`
