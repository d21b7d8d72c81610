package dispatch

// fenceSQL locks the leases that are settled, all of them before any row and in one
// order. One that is gone stays gone, and its verdicts change nothing. One that is there
// cannot be ended by another publisher until the settle is committed, whatever the clock says.
//
//	$1 owner, $2 leases
const fenceSQL = `SELECT id FROM outbox_leases WHERE id = ANY ($2::bigint[]) AND owner = $1::text::uuid ORDER BY id FOR UPDATE`

// heldLeases are the leases that fenceSQL has locked. Adding nothing to seqs unpacks
// it once, not for every row.
//
//	$1 owner, $2 leases
const heldLeases = `held AS MATERIALIZED (
    SELECT id, seqs + '{}'::int8multirange AS seqs FROM outbox_leases WHERE id = ANY ($2::bigint[]) AND owner = $1::text::uuid
)`

// inLease and fence are what the settling statements share: the lease that a row was
// claimed with must still name it. A publisher that was stopped for longer than its lease
// changes nothing when it wakes up, and one that repeats a settle changes nothing twice.
//
// The CASE hides the state of the row from the planner, which thinks that hardly any row
// is unpublished and would walk those, once per settle. What it sees is the primary key.
const (
	inLease = `JOIN held ON held.id = v.lease AND held.seqs @> v.seq`
	fence   = `e.id = v.id
   AND CASE WHEN e.seq = v.seq AND e.published_at IS NULL AND e.dead_at IS NULL THEN true ELSE false END`
)

// publishedSQL is the only statement that sets published_at.
//
//	$1 owner, $2 leases, $3 ids, $4 the lease of each, $5 seqs, $6 the broker's message ids
const publishedSQL = `
WITH ` + heldLeases + `
UPDATE outbox_events AS e
   SET published_at = now(), broker_message_id = v.message_id
  FROM unnest($3::text[]::uuid[], $4::bigint[], $5::bigint[], $6::text[]) AS v (id, lease, seq, message_id) ` + inLease + `
 WHERE ` + fence

// failedSQL puts rows back with a delay of their own.
//
//	$1 to $5 as publishedSQL, $6 errors, $7 delays in microseconds, $8 charge
const failedSQL = `
WITH ` + heldLeases + `
UPDATE outbox_events AS e
   SET attempt_count = e.attempt_count + v.charge, last_error = v.error,
       next_attempt_at = now() + v.delay * interval '1 microsecond'
  FROM unnest($3::text[]::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::int[])
       AS v (id, lease, seq, error, delay, charge) ` + inLease + `
 WHERE ` + fence

// deadSQL marks rows dead and writes their dead letters in one statement, so
// that neither can be there without the other. The letter is copied from the
// row itself.
//
//	$1 to $5 as publishedSQL, $6 reasons, $7 errors, $8 topics, $9 fingerprints, $10 charge
const deadSQL = `
WITH ` + heldLeases + `, dead AS (
    UPDATE outbox_events AS e
       SET dead_at = now(), attempt_count = e.attempt_count + v.charge, last_error = v.error
      FROM unnest($3::text[]::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::int[])
           AS v (id, lease, seq, reason, error, topic, fingerprint, charge) ` + inLease + `
     WHERE ` + fence + `
    RETURNING e.id, e.event_type, e.aggregate_type, e.aggregate_id, e.payload_json, e.headers, v.reason, v.error,
              e.attempt_count, e.namespace, e.tenant_id, v.topic, v.fingerprint, e.created_at
)
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason,
                        error_message, attempt_count, namespace, tenant_id, topic, fingerprint, event_created_at)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, headers, reason::outbox_dlq_reason,
       error, attempt_count, namespace, tenant_id, nullif(topic, ''), fingerprint, created_at
  FROM dead`

// releasedSQL counts rows that were never handed to the broker and are given back. No
// event is written for that: shrinkSQL takes them out of their lease with the others.
//
//	$1 owner, $2 leases, $3 the lease of each, $4 seqs
const releasedSQL = `
WITH ` + heldLeases + `
SELECT FROM unnest($3::bigint[], $4::bigint[]) AS v (lease, seq) ` + inLease

// shrinkSQL takes what is settled out of its leases, in the transaction of the verdicts:
// there is no moment at which a row is neither leased nor settled, nor one at which it
// is both. The sum keeps the planner from the index of seqs, which holds them without
// their gaps: it finds no lease that is contained in seqs with gaps.
//
//	$1 owner, $2 leases, $3 and $4 first and last seq of what is settled of each
const shrinkSQL = `
WITH settled AS MATERIALIZED (
    SELECT lease, range_agg(int8range(first, last, '[]')) AS seqs FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS v (lease, first, last) GROUP BY lease
), deleted AS (
    DELETE FROM outbox_leases AS l USING settled AS s WHERE l.id = s.lease AND l.owner = $1::text::uuid AND l.seqs + '{}' <@ s.seqs
)
UPDATE outbox_leases AS l SET seqs = l.seqs - s.seqs FROM settled AS s WHERE l.id = s.lease AND l.owner = $1::text::uuid AND NOT l.seqs + '{}' <@ s.seqs`
