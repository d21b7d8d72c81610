package dispatch

// Every statement below reads the database's clock and none reads ours: a
// publisher whose clock is wrong neither steals leases nor loses its own.
//
// Parameters are of types that encode alike in every exec mode of the driver
// (text arrays with a cast, never []uuid.UUID), so that a transaction-mode
// pooler can stand in between.

// beginReadCommitted opens the transaction of a claim or a settle. The level
// is spelled out because a role may default to another: under REPEATABLE READ
// two publishers meeting on a row raise 40001 instead of skipping it.
const beginReadCommitted = `BEGIN ISOLATION LEVEL READ COMMITTED`

// steerPlanner keeps the planner on the two indexes these statements are made
// for. Its statistics are always those of another moment: taken while nothing
// waited, they say that "unpublished" is one row, and a settle is planned as a
// walk over the whole backlog for every row it has; taken in the middle of a
// backlog, they make a scan of all published rows look cheap. Compiling a
// statement of a millisecond takes a second, so that is off too. The settings
// end with the transaction.
const steerPlanner = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_sort', 'off', true), set_config('jit', 'off', true)`

// dueNow is the predicate of a claimable row: living, due, not leased, in
// scope, and not of a topic that takes nothing at the moment. Its first line
// is that of the partial index outbox_events_seq_claim_idx.
//
//	$2 namespace, $3 tenant, $4 only what these texts choose, $5 not what these do, both as outbox.Chosen says. The rows
//	of a topic that is away are walked over again and again, so what leaves out most of them is compared first.
const dueNow = `
       published_at IS NULL AND dead_at IS NULL
   AND next_attempt_at <= now()
   AND (locked_until IS NULL OR locked_until <= now())
   AND ($2::text = '' OR namespace = $2::text)
   AND ($3::text = '' OR tenant_id = nullif($3::text, '')::uuid)
   AND (cardinality($4::text[]) = 0 OR event_type::text = ANY ($4::text[]) OR namespace || ' ' || event_type::text = ANY ($4::text[])
        OR ('* ' || event_type::text = ANY ($4::text[]) AND ' ' || event_type::text || ' ' || namespace <> ALL ($4::text[])))
   AND (cardinality($5::text[]) = 0 OR (event_type::text <> ALL ($5::text[]) AND namespace || ' ' || event_type::text <> ALL ($5::text[])
        AND ('* ' || event_type::text <> ALL ($5::text[]) OR ' ' || event_type::text || ' ' || namespace = ANY ($5::text[]))
        AND namespace || ' ' <> ALL ($5::text[]) AND coalesce(' ' || tenant_id::text, '') <> ALL ($5::text[])))`

// inSpan bounds the walk. 0 as $1 is the head, where rows with seq 0 are: those that
// had been published before the table became an outbox, and were published again.
//
//	$1 after seq, $6 through seq
const inSpan = ` AND seq > coalesce(nullif($1::bigint, 0), -1) AND seq <= $6`

// dueRows are the claimable rows that need no order.
const dueRows = dueNow + inSpan + ` AND ordering_key IS NULL`

// claimSQL leases the oldest due rows.
//
// The candidates are MATERIALIZED: inlined into an IN or a join, LIMIT is
// evaluated per probe and the statement can lease more rows than it was asked
// for. SKIP LOCKED walks around rows another publisher is leasing right now.
//
// A claim ends at its byte budget, counted by what is printed: a row can be a
// hundred times its stored size where that is compressed, and ten thousand times
// where it holds numbers such as 1e131071. A row that is larger than the whole
// budget is still taken, alone; one that is larger than any message comes without
// its contents. Printing is most of a claim's cost, so each row is printed once
// and none behind the budget: the sum is kept in a setting of the transaction
// (claimedBytes), which is read before a row is printed and written after it, in
// the order of seq. A running sum over all candidates would have to print all of
// them first. Writing the setting costs as much as printing a small row: rows so
// small that all of them are a quarter of the budget are not counted, so a claim
// can be larger by that quarter. OFFSET 0 keeps the steps apart.
//
// A row that still names an owner is one whose lease ran out without a
// verdict: that is charged as an attempt here, so a row that kills its
// publishers is bounded like any other.
//
// The update touches no indexed column and fits into the page's free half, so
// it is a HOT update and writes no index.
//
//	$7 limit, $8 bytes, $9 owner, $10 lease in milliseconds, $11 bytes of a row
const claimSQL = `
WITH candidates AS MATERIALIZED (
    SELECT id, locked_by, payload_json, headers
      FROM outbox_events
     WHERE ` + dueRows + `
     ORDER BY seq
     LIMIT $7
       FOR UPDATE SKIP LOCKED
)` + leasePicked + printBefore + `candidates` + printAfter + returnPicked + returnPrinted

// printBefore and printAfter print the rows of the query between them, in its
// order, up to the byte budget; returnPrinted returns them.
const printBefore = ` (
    SELECT id, locked_by AS last_owner, payload, headers, octet_length(payload) + coalesce(octet_length(headers), 0) AS bytes,
           CASE WHEN octet_length(payload) + coalesce(octet_length(headers), 0) > $8::bigint / (4 * $7::bigint)
                THEN set_config('` + claimedBytes + `', (before + octet_length(payload) + coalesce(octet_length(headers), 0))::text, true) END
      FROM (SELECT id, locked_by, before, payload_json::text AS payload, headers::text
              FROM (SELECT id, locked_by, payload_json, headers, current_setting('` + claimedBytes + `')::bigint AS before FROM `

const printAfter = ` OFFSET 0) AS counted
             WHERE before < $8::bigint
            OFFSET 0) AS printed
)`

const returnPrinted = `, bytes,
          CASE WHEN bytes <= $11::bigint THEN payload END, CASE WHEN bytes <= $11::bigint THEN picked.headers END`

// claimedBytes is the setting that counts what a claim has printed.
const claimedBytes = "outboxctl.claimed_bytes"

// countFromZero begins a claim's count, and looks for rows that the claim leaves
// alone because they have an ordering key. That costs no round trip, and where no
// key is used an empty index.
//
//	$1 after seq
const countFromZero = `SELECT set_config('` + claimedBytes + `', '0', true), ` + keyedBefore + `$1` + keyedAfter

// keyedBefore and keyedAfter ask whether a row with an ordering key waits behind
// the seq between them. Order and limit are those of dueSQL.
const (
	keyedBefore = `
       (SELECT count(*) > 0 FROM (SELECT 1 FROM outbox_events
         WHERE ordering_key IS NOT NULL AND published_at IS NULL AND dead_at IS NULL AND seq > `
	keyedAfter = ` ORDER BY seq LIMIT 1) AS keyed)`
)

// leasePicked leases the rows of picked, the query that follows it; returnPicked
// returns all of them but their contents.
const leasePicked = `
UPDATE outbox_events AS e
   SET locked_by     = $9::text::uuid,
       locked_until  = now() + $10::bigint * interval '1 millisecond',
       attempt_count = e.attempt_count + (last_owner IS NOT NULL)::int,
       last_error    = CASE WHEN last_owner IS NULL THEN e.last_error
                            ELSE 'lease of publisher ' || last_owner || ' expired without a verdict' END,
       updated_at    = now()
  FROM`

const returnPicked = ` AS picked
 WHERE e.id = picked.id
RETURNING e.id::text, e.locked_until, e.seq, e.event_type::text, e.aggregate_type::text, e.aggregate_id::text,
          e.created_at, e.attempt_count, coalesce(e.last_error, ''), coalesce(e.max_attempts, 0), last_owner IS NOT NULL,
          e.namespace, coalesce(e.tenant_id::text, ''), coalesce(e.dedupe_key, ''), coalesce(e.ordering_key, '')`

// candidatesSQL locks the oldest due rows without looking into them.
//
//	$7 limit
const candidatesSQL = `
SELECT id::text FROM outbox_events WHERE ` + dueRows + ` ORDER BY seq LIMIT $7 FOR UPDATE SKIP LOCKED`

// salvageSQL leases candidates that were locked in the same transaction.
//
//	$7 how many, $8 ids, $9 owner, $10 lease in milliseconds
const salvageSQL = `
WITH locked AS MATERIALIZED (
    SELECT id, locked_by AS last_owner
      FROM outbox_events
     WHERE ` + dueNow + inSpan + `
       AND id = ANY ($8::text[]::uuid[])
     LIMIT $7
)` + leasePicked + ` locked` + returnPicked + `, 0, NULL::text, NULL::text`

// dueSQL asks whether a claim would find anything. It locks nothing. The order
// and the limit are what keeps it on the claim index: EXISTS would drop them
// and might read every published row in search of one that is not.
//
//	$7 as $1 of countFromZero
const dueSQL = `
SELECT (SELECT count(*) > 0 FROM (SELECT 1 FROM outbox_events WHERE ` + dueRows + ` ORDER BY seq LIMIT 1) AS first), ` + keyedBefore + `$7` + keyedAfter

// heldSQL counts the leases of a publisher. No index knows owners, so it walks the
// claim index: it is for the end of a run.
const heldSQL = `
SELECT count(*), coalesce(max(locked_until), now())
  FROM outbox_events
 WHERE published_at IS NULL AND dead_at IS NULL AND locked_by = $1::text::uuid AND locked_until > now()`

// The settling statements share their fence: the row must still carry the
// owner and the very end of lease it was claimed with. A publisher that was
// stopped for longer than its lease changes nothing when it wakes up.
//
// The CASE hides the fence from the planner, which thinks that hardly any row
// names an owner and would walk the whole table for those, once per settle.
// What it sees is the primary key.
const fence = `e.id = v.id
   AND CASE WHEN e.locked_by = $1::text::uuid AND e.locked_until = v.until
             AND e.published_at IS NULL AND e.dead_at IS NULL THEN true ELSE false END`

// publishedSQL is the only statement that sets published_at.
//
//	$1 owner, $2 ids, $3 lease ends, $4 the broker's message ids
const publishedSQL = `
UPDATE outbox_events AS e
   SET published_at = now(), broker_message_id = v.message_id,
       locked_by = NULL, locked_until = NULL, updated_at = now()
  FROM unnest($2::text[]::uuid[], $3::timestamptz[], $4::text[]) AS v (id, until, message_id)
 WHERE ` + fence

// failedSQL puts rows back with a delay of their own.
//
//	$1 owner, $2 ids, $3 lease ends, $4 errors, $5 delays in microseconds, $6 charge
const failedSQL = `
UPDATE outbox_events AS e
   SET attempt_count = e.attempt_count + v.charge, last_error = v.error,
       next_attempt_at = now() + v.delay * interval '1 microsecond',
       locked_by = NULL, locked_until = NULL, updated_at = now()
  FROM unnest($2::text[]::uuid[], $3::timestamptz[], $4::text[], $5::bigint[], $6::int[]) AS v (id, until, error, delay, charge)
 WHERE ` + fence

// deadSQL marks rows dead and writes their dead letters in one statement, so
// that neither can be there without the other. The letter is copied from the
// row itself.
//
//	$1 owner, $2 ids, $3 lease ends, $4 reasons, $5 errors, $6 topics, $7 fingerprints, $8 charge
const deadSQL = `
WITH dead AS (
    UPDATE outbox_events AS e
       SET dead_at = now(), attempt_count = e.attempt_count + v.charge, last_error = v.error,
           locked_by = NULL, locked_until = NULL, updated_at = now()
      FROM unnest($2::text[]::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[])
           AS v (id, until, reason, error, topic, fingerprint, charge)
     WHERE ` + fence + `
    RETURNING e.id, e.event_type, e.aggregate_type, e.aggregate_id, e.payload_json, e.headers, v.reason, v.error,
              e.attempt_count, e.namespace, e.tenant_id, v.topic, v.fingerprint, e.created_at
)
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason,
                        error_message, attempt_count, namespace, tenant_id, topic, fingerprint, event_created_at)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, headers, reason::outbox_dlq_reason,
       error, attempt_count, namespace, tenant_id, nullif(topic, ''), fingerprint, created_at
  FROM dead`

// releasedSQL gives back rows that were never handed to the broker.
//
//	$1 owner, $2 ids, $3 lease ends
const releasedSQL = `
UPDATE outbox_events AS e
   SET locked_by = NULL, locked_until = NULL, updated_at = now()
  FROM unnest($2::text[]::uuid[], $3::timestamptz[]) AS v (id, until)
 WHERE ` + fence
