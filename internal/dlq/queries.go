package dlq

// The statements of this package. Ids travel as text and are cast here, because
// that works in every mode of the driver, transaction poolers included. None
// but the two that say so read payload_json or headers: a viewer may not.

const selectIdentity = `
SELECT c.system_identifier::text, d.oid, d.datname
  FROM pg_control_system() AS c, pg_database AS d
 WHERE d.datname = current_database()`

const entryColumns = `d.id::text, d.event_id::text, d.event_type::text, d.aggregate_type::text, d.aggregate_id::text,
       d.error_reason::text, d.error_message, d.attempt_count, d.failed_at, d.namespace, d.tenant_id::text, d.topic,
       d.fingerprint, d.event_created_at, d.state, d.state_changed_at`

// By primary key, in the caller's order.
const selectEntries = `
SELECT ` + entryColumns + `
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  JOIN outbox_dlq AS d ON d.id = w.id
 ORDER BY w.ord`

// All deaths of one event, oldest first, by outbox_dlq_event_idx.
const selectEventEntries = `
SELECT ` + entryColumns + `
  FROM outbox_dlq AS d
 WHERE d.event_id = $1::uuid
 ORDER BY d.failed_at, d.id`

const selectEntryTime = `SELECT failed_at FROM outbox_dlq WHERE id = $1::uuid`

// Reads what the event carried.
const selectEntryContent = `SELECT payload_json::text, headers::text FROM outbox_dlq WHERE id = $1::uuid`

// An id is a dead letter's own, or else an event's: then its newest dead letter
// in the state $2, or its newest. Primary key and outbox_dlq_event_idx.
const resolveEntries = `
SELECT w.id::text, coalesce(d.id, n.id)::text, coalesce(d.event_id, n.event_id)::text, coalesce(d.failed_at, n.failed_at)
  FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, ord)
  LEFT JOIN outbox_dlq AS d ON d.id = w.id
  LEFT JOIN LATERAL (
       SELECT e.id, e.event_id, e.failed_at
         FROM outbox_dlq AS e
        WHERE d.id IS NULL AND e.event_id = w.id
        ORDER BY e.state = $2 DESC, e.failed_at DESC, e.id DESC
        LIMIT 1) AS n ON true
 ORDER BY w.ord`
