package outbox

// None of these but selectContent reads payload_json or headers: a viewer may not.

const eventColumns = `e.id::text AS id, e.seq, e.event_type::text AS event_type, e.aggregate_type::text AS aggregate_type,
       e.aggregate_id::text AS aggregate_id, e.status, e.namespace, e.tenant_id::text AS tenant_id, e.dedupe_key, e.attempt_count,
       e.max_attempts, e.last_error, e.created_at, e.next_attempt_at, e.locked_by::text AS locked_by, e.locked_until, e.published_at,
       e.dead_at, e.broker_message_id, e.ordering_key, e.passed_at, e.deliver_at, e.erased_at, e.trace_id`

// Leased are the events that publishers hold at the moment, as a value to compare seq with: leased
// @> seq. It is put together once, from few rows.
const Leased = `(SELECT coalesce(range_agg(named), '{}') FROM outbox_leases AS l, unnest(l.seqs) AS named WHERE l.until > now())`

// By primary key, in the caller's order.
const selectEvents = `
SELECT ` + eventColumns + `
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  JOIN outbox_event_status AS e ON e.id = w.id
 ORDER BY w.ord`

// Reads what the event carries.
const selectContent = `SELECT payload_json::text, headers::text FROM outbox_events WHERE id = $1::uuid`

// By the two indexes on aggregates. Events of one transaction share created_at; seq orders those.
const selectNeighbours = `
WITH pivot AS (
    SELECT coalesce((SELECT p.created_at FROM outbox_events AS p WHERE p.id = $3::uuid), $4::timestamptz) AS created_at,
           coalesce((SELECT p.seq FROM outbox_events AS p WHERE p.id = $3::uuid), 0) AS seq
), near AS (
    (SELECT e.id, e.created_at, e.seq
       FROM outbox_events AS e, pivot AS p
      WHERE e.aggregate_type = outbox_aggregate_type($1::text) AND e.aggregate_id = outbox_aggregate_id($2::text) AND e.id <> $3::uuid AND ` + openOrPast + `
        AND (e.created_at, e.seq) < (p.created_at, p.seq)
      ORDER BY e.created_at DESC, e.seq DESC LIMIT $5)
    UNION ALL
    (SELECT e.id, e.created_at, e.seq
       FROM outbox_events AS e, pivot AS p
      WHERE e.aggregate_type = outbox_aggregate_type($1::text) AND e.aggregate_id = outbox_aggregate_id($2::text) AND e.id <> $3::uuid AND ` + openOrPast + `
        AND (e.created_at, e.seq) > (p.created_at, p.seq)
      ORDER BY e.created_at, e.seq LIMIT $5)
)
SELECT ` + eventColumns + `
  FROM near AS n
  JOIN outbox_event_status AS e ON e.id = n.id
 ORDER BY e.created_at, e.seq`

// What waits in an ordering key, in turn: the first is its head, also when that is dead. Reads
// outbox_events_turn_idx.
const selectLane = `
SELECT ` + eventColumns + `
  FROM (SELECT id, seq FROM outbox_events
         WHERE ordering_key = $1 AND published_at IS NULL AND passed_at IS NULL
         ORDER BY seq
         LIMIT $2) AS n
  JOIN outbox_event_status AS e ON e.id = n.id
 ORDER BY e.seq`

// Those of the events that wait behind a dead one of their ordering key. Reads
// outbox_events_blocking_idx.
const selectParked = `
SELECT e.id::text
  FROM outbox_events AS e
 WHERE e.id = ANY ($1::uuid[]) AND e.published_at IS NULL AND e.dead_at IS NULL
   AND EXISTS (SELECT FROM outbox_events AS d
                WHERE d.ordering_key = e.ordering_key AND d.seq < e.seq
                  AND d.published_at IS NULL AND d.dead_at IS NOT NULL AND d.passed_at IS NULL)`

// The events with a dedupe key, whatever their namespace and type: the walk takes one step of
// outbox_events_dedupe_idx for each pair of those, so it does not grow with the table.
const selectByDedupeKey = `
WITH RECURSIVE kinds AS (
    (SELECT e.namespace, e.event_type FROM outbox_events AS e WHERE e.dedupe_key IS NOT NULL ORDER BY e.namespace, e.event_type LIMIT 1)
    UNION ALL
    SELECT n.namespace, n.event_type
      FROM kinds AS k,
           LATERAL (SELECT e.namespace, e.event_type FROM outbox_events AS e
                     WHERE e.dedupe_key IS NOT NULL AND (e.namespace, e.event_type) > (k.namespace, k.event_type)
                     ORDER BY e.namespace, e.event_type LIMIT 1) AS n
)
SELECT e.id::text
  FROM kinds AS k
  JOIN outbox_events AS e ON e.namespace = k.namespace AND e.event_type = k.event_type AND e.dedupe_key = $1
 ORDER BY e.created_at DESC`

// By outbox_events_published_at_idx. The broker's ids have no index, which every publish would have
// to pay for: only the newest $2 are looked at.
const selectByBrokerID = `
SELECT e.id::text
  FROM (SELECT p.id, p.broker_message_id FROM outbox_events AS p WHERE p.published_at IS NOT NULL ORDER BY p.published_at DESC LIMIT $2) AS e
 WHERE e.broker_message_id = $1
 LIMIT 1`

// How many of the events were overtaken: a later one of their aggregate is published. By primary
// key and outbox_events_past_aggregate_idx.
const countOvertaken = `
SELECT count(*)
  FROM outbox_events AS e
 WHERE e.id = ANY ($1::uuid[])
   AND EXISTS (SELECT 1 FROM outbox_events AS n
                WHERE n.aggregate_type = e.aggregate_type AND n.aggregate_id = e.aggregate_id AND n.published_at IS NOT NULL
                  AND (n.created_at, n.seq) > (e.created_at, e.seq))`

// Of random ids some are above every id of version 7, so one step in the index tells whether there
// are any. The events that wait are sorted for each page by change: with more than 20,000 of them
// the list stays with the ids.
const idsAreRandom = `
SELECT coalesce((SELECT substr(id::text, 15, 1) <> '7' FROM outbox_events ORDER BY id DESC LIMIT 1), false)
   AND NOT EXISTS (SELECT FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL OFFSET 20000)`
