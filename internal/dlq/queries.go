package dlq

import (
	"regexp"
	"strings"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// The statements of this package. Ids travel as text and are cast here, because
// that works in every mode of the driver, transaction poolers included. None
// but the two that say so read payload_json or headers: a viewer may not.

const selectIdentity = `
SELECT c.system_identifier::text, d.oid, d.datname
  FROM pg_control_system() AS c, pg_database AS d
 WHERE d.datname = current_database()`

const entryColumns = `d.id::text AS id, d.event_id::text AS event_id, d.event_type::text AS event_type,
       d.aggregate_type::text AS aggregate_type, d.aggregate_id::text AS aggregate_id, d.error_reason::text AS error_reason,
       d.error_message, d.attempt_count, d.failed_at, d.namespace, d.tenant_id::text AS tenant_id, d.topic, d.fingerprint,
       d.event_created_at, d.state, d.state_changed_at, d.corrected_by::text AS corrected_by, d.erased_at, e.ordering_key, b.blocks`

// The event's ordering key, and what an open dead letter holds back in it. Primary key and
// outbox_events_turn_idx. What says whether anything can be held back stands inside: then nothing
// is looked up for a row that holds back nothing.
const joinBlocked = `
  LEFT JOIN outbox_events AS e ON e.id = d.event_id
 CROSS JOIN LATERAL (
       SELECT count(*) AS blocks
         FROM (SELECT FROM outbox_events AS f
                WHERE d.state = 'open' AND e.dead_at IS NOT NULL AND e.published_at IS NULL AND e.passed_at IS NULL AND e.ordering_key IS NOT NULL
                  AND f.ordering_key = e.ordering_key AND f.published_at IS NULL AND f.passed_at IS NULL AND f.dead_at IS NULL AND f.seq > e.seq
                LIMIT 1001) AS behind) AS b`

// A condition on a dead letter: something waits for it.
const blocksSomething = `EXISTS (
    SELECT FROM outbox_events AS e
      JOIN outbox_events AS f ON f.ordering_key = e.ordering_key AND f.published_at IS NULL AND f.passed_at IS NULL AND f.dead_at IS NULL AND f.seq > e.seq
     WHERE e.id = event_id AND e.ordering_key IS NOT NULL AND e.dead_at IS NOT NULL AND e.published_at IS NULL AND e.passed_at IS NULL)`

// Whether any key stands still, by outbox_events_blocking_idx.
const anyBlocked = `
SELECT EXISTS (SELECT FROM outbox_events WHERE ordering_key IS NOT NULL AND published_at IS NULL AND dead_at IS NOT NULL AND passed_at IS NULL)`

// What discarding events would release: living events behind one of them, and behind no other dead
// event. And how many of the events are behind a dead one that is not among them: replayed, these
// go on waiting.
const orderEffects = `
WITH chosen AS MATERIALIZED (
    SELECT e.id, e.ordering_key, e.seq
      FROM %s AS w(id)
      JOIN outbox_events AS e ON e.id = w.id
     WHERE e.ordering_key IS NOT NULL AND e.published_at IS NULL AND e.dead_at IS NOT NULL AND e.passed_at IS NULL
), keys AS MATERIALIZED (
    SELECT c.ordering_key, c.first, o.seq AS other
      FROM (SELECT ordering_key, min(seq) AS first FROM chosen GROUP BY ordering_key) AS c
      LEFT JOIN LATERAL (
           SELECT h.seq
             FROM outbox_events AS h
            WHERE h.ordering_key = c.ordering_key AND h.published_at IS NULL AND h.dead_at IS NOT NULL AND h.passed_at IS NULL
              AND NOT EXISTS (SELECT FROM chosen AS x WHERE x.id = h.id)
            ORDER BY h.seq
            LIMIT 1) AS o ON true
)
SELECT (SELECT count(*)
          FROM keys AS k
          JOIN outbox_events AS f ON f.ordering_key = k.ordering_key AND f.published_at IS NULL AND f.passed_at IS NULL AND f.dead_at IS NULL
           AND f.seq > k.first AND (k.other IS NULL OR f.seq < k.other)),
       (SELECT count(*) FROM chosen AS c JOIN keys AS k ON k.ordering_key = c.ordering_key AND k.other < c.seq)`

// By primary key, in the caller's order.
const selectEntries = `
SELECT ` + entryColumns + `
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  JOIN outbox_dlq AS d ON d.id = w.id` + joinBlocked + `
 ORDER BY w.ord`

// A page of an index: what is walked, its order, how many, twice the direction, and its columns.
const selectPage = `
SELECT ` + entryColumns + `
  FROM (SELECT %[5]s FROM outbox_dlq WHERE %[1]s ORDER BY %[2]s LIMIT %[3]d) AS d` + joinBlocked + `
 ORDER BY d.failed_at %[4]s, d.id %[4]s`

// pageColumns are the columns of the table that entryColumns reads: a viewer may not read every
// one.
func pageColumns() string {
	var names []string
	for _, found := range regexp.MustCompile(`\bd\.(\w+)`).FindAllStringSubmatch(entryColumns, -1) {
		names = append(names, found[1])
	}
	return strings.Join(names, ", ")
}

// By primary key.
const selectHopeless = `SELECT id::text FROM outbox_dlq WHERE id = ANY ($1::uuid[]) AND error_reason::text = ANY ($2::text[])`

// By primary key. Nothing of an erased one is sent, so it does not fail again.
const countReasons = `SELECT error_reason::text AS reason, count(*) AS n FROM outbox_dlq WHERE id = ANY ($1::uuid[]) AND erased_at IS NULL GROUP BY 1`

// All deaths of one event, oldest first, by outbox_dlq_event_idx.
const selectEventEntries = `
SELECT ` + entryColumns + `
  FROM outbox_dlq AS d` + joinBlocked + `
 WHERE d.event_id = $1::uuid
 ORDER BY d.failed_at, d.id`

// Reads what the event carried.
const selectEntryContent = `SELECT payload_json::text, headers::text FROM outbox_dlq WHERE id = $1::uuid`

// An id is a dead letter's own, or else an event's: then its newest dead letter
// in the state $2, or its newest. Primary key and outbox_dlq_event_idx.
const resolveEntries = `
SELECT w.id::text AS given, coalesce(coalesce(d.id, n.id)::text, '') AS id, coalesce(coalesce(d.event_id, n.event_id)::text, '') AS event_id,
       coalesce(d.failed_at, n.failed_at) AS at
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  LEFT JOIN outbox_dlq AS d ON d.id = w.id
  LEFT JOIN LATERAL (
       SELECT e.id, e.event_id, e.failed_at
         FROM outbox_dlq AS e
        WHERE d.id IS NULL AND e.event_id = w.id
        ORDER BY e.state = $2 DESC, e.failed_at DESC, e.id DESC
        LIMIT 1) AS n ON true
 ORDER BY w.ord`

// A dead letter's id leads to its event; any other id stands for itself.
const resolveEvents = `
SELECT w.id::text AS given, coalesce(e.id::text, '') AS id, coalesce(e.id::text, '') AS event_id, e.published_at AS at
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  LEFT JOIN outbox_dlq AS d ON d.id = w.id
  LEFT JOIN outbox_events AS e ON e.id = coalesce(d.event_id, w.id)
 ORDER BY w.ord`

// An event's id stands for itself also when cleanup has removed its row and only dead letters of it
// are left.
const resolveErasable = `
SELECT f.given, coalesce(f.id, '') AS id, coalesce(f.id, '') AS event_id
  FROM (SELECT w.id::text AS given, w.ord,
               coalesce(d.event_id, e.id, (SELECT n.event_id FROM outbox_dlq AS n WHERE n.event_id = w.id LIMIT 1))::text AS id
          FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
          LEFT JOIN outbox_dlq AS d ON d.id = w.id
          LEFT JOIN outbox_events AS e ON e.id = w.id) AS f
 ORDER BY f.ord`

// The events of dead letters whose rows cleanup has removed. By primary key.
const selectOrphans = `
SELECT DISTINCT w.id::text AS id, w.id::text AS event_id FROM unnest($1::uuid[]) AS w(id)
 WHERE NOT EXISTS (SELECT FROM outbox_events AS e WHERE e.id = w.id)`

// The dead letters that the next audit row of a run tells of; $1 is the one before, $3 any of them:
// a run of one may have no runId. By outbox_audit_run_idx or primary key.
const selectRunEntries = `
SELECT a.id, ARRAY(SELECT i.id FROM jsonb_array_elements_text(a.detail -> 'dlqIds') WITH ORDINALITY AS i(id, ord) ORDER BY i.ord),
       ARRAY(SELECT coalesce(d.event_id::text, '') FROM jsonb_array_elements_text(a.detail -> 'dlqIds') WITH ORDINALITY AS i(id, ord)
               LEFT JOIN outbox_dlq AS d ON d.id = i.id::uuid ORDER BY i.ord)
  FROM outbox_audit AS a
 WHERE a.id > $1::bigint AND (a.detail ->> 'runId' = $2 OR a.id = $3::bigint)
 ORDER BY a.id LIMIT 1`

// The function locks, judges, changes and writes the audit row.
const callCorrect = `
SELECT coalesce(event_id::text, ''), outcome FROM outbox_correct($1::uuid, $2::uuid, $3::text::jsonb, $4::text::jsonb, $5, nullif($6, ''), $7::jsonb)`

// What an action would answer now, without locking anything. outbox_outcome decides, as it does
// where a plan is made and run: a dry run in a transaction that is rolled back would lock the rows,
// write them twice and need the operator's role.
const previewRows = `
SELECT w.id::text, coalesce(coalesce(d.event_id, e.id)::text, '') AS event_id,
       CASE $3::text WHEN 'event.erase' THEN outbox_erase_outcome(w.id, w.seen) ELSE outbox_outcome($3::text, d.state, e.id IS NOT NULL, e.published_at IS NOT NULL, e.dead_at IS NOT NULL, d.corrected_by IS NOT NULL,
                      CASE $3::text WHEN 'event.republish' THEN e.published_at = coalesce(w.seen::timestamptz, e.published_at)
                              WHEN 'event.retry' THEN e.next_attempt_at <= now() OR ` + outbox.Leased + ` @> e.seq
                              ELSE w.seen IS NULL OR w.seen = d.audit_id::text END,
                      coalesce(d.erased_at, e.erased_at) IS NOT NULL) END AS outcome
  FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS w(id, seen, ord)
  LEFT JOIN outbox_dlq AS d ON $3::text NOT IN ('event.republish', 'event.retry', 'event.erase') AND d.id = w.id
  LEFT JOIN outbox_events AS e ON e.id = CASE WHEN $3::text IN ('event.republish', 'event.retry', 'event.erase') THEN w.id ELSE d.event_id END
 ORDER BY w.ord`

// What becomes of replayed events.
const selectProgress = `
SELECT w.id::text, e.id IS NULL OR e.published_at IS NOT NULL AS published, coalesce(e.dead_at IS NOT NULL, false) AS dead,
       coalesce(e.attempt_count, 0) AS attempts
  FROM unnest($1::uuid[]) AS w(id)
  LEFT JOIN outbox_events AS e ON e.id = w.id`

// Reads what the events carried.
const selectExport = `
SELECT d.id::text, d.event_id::text, d.event_type::text AS type, d.aggregate_type::text, d.aggregate_id::text, d.payload_json::text AS payload,
       d.headers::text, d.namespace, d.tenant_id::text
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  JOIN outbox_dlq AS d ON d.id = w.id AND d.erased_at IS NULL
 ORDER BY w.ord`
