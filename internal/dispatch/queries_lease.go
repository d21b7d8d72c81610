package dispatch

// A lease is a row of outbox_leases that names events by their seq. A claim is one
// round trip:
//
//	BEGIN · charge what expired · lock · look and lease · COMMIT · read
//
// What expired is looked for by sweeps only, and not by each: that walks over all leases,
// also those that are over and that vacuum could not remove yet.
//
// What makes it safe is that the look has a newer snapshot than the lock: whoever leased
// one of these rows before held the same row locks until its lease was committed, so the
// look sees it; whoever settled one changed the row, so the lock's recheck drops it. No
// row is ever named by two leases, and no clock is part of that: a lease that has ended
// still names its rows until a claim has deleted it and charged them.
//
// Contents are read behind the COMMIT: a client that is stopped with a full socket holds
// no lock.

// Settings that carry something from one statement of a claim to the next, so that the
// server never waits for the client in between. The lease's id is the client's: whatever
// becomes of the answer, it can give that lease back.
const (
	lockedRows  = "outboxctl.locked"
	lockedRuns  = "outboxctl.runs"
	leaseRowsOf = `(SELECT coalesce(sum(upper(named) - lower(named)), 0)::bigint FROM unnest(seqs) AS named)`
)

// takenRows are the rows that leases name, ended or not. heldRows are those of leases that
// run, for who only wants to know whether a sweep would find something.
const (
	takenRows = taken + `)`
	heldRows  = taken + ` WHERE until > now())`
	taken     = `taken AS MATERIALIZED (
    SELECT coalesce(range_agg(named), '{}') AS seqs FROM outbox_leases, unnest(seqs) AS named`
)

// freeRow is the predicate of a row that no lease names, for claims of runs and for looks. A
// claim leaves its lock in the row's xmax, so a row without one was never leased. The others are
// compared with all leases, which are put together when the first such row is met. An xmax may
// be removed by a vacuum; the look behind the lock decides.
const freeRow = `(xmax = 0 OR NOT (SELECT seqs FROM taken) @> seq)`

// expiredSQL ends leases without a verdict, one claim each: their rows are charged with
// an attempt, so that a row that kills its publishers is bounded like any other. Of an
// ordering key the first is charged alone: the others were not sent. A row that another
// session holds stays in its lease until the next claim, and so does all of a lease that
// is being settled. No row is joined by its id, see orderedRuns.
const expiredSQL = `
WITH ended AS MATERIALIZED (
    SELECT id, owner, seqs FROM outbox_leases WHERE until <= now() FOR UPDATE SKIP LOCKED
), open AS MATERIALIZED (
    SELECT ended.id AS lease, ended.owner, e.id, e.seq,
           e.ordering_key IS NULL OR row_number() OVER (PARTITION BY ended.id, e.ordering_key ORDER BY e.seq) = 1 AS first
      FROM ended
     CROSS JOIN unnest(ended.seqs) AS named
     CROSS JOIN LATERAL (SELECT id, seq, ordering_key FROM outbox_events
                          WHERE seq >= lower(named) AND seq < upper(named) AND published_at IS NULL AND dead_at IS NULL
                          ORDER BY seq) AS e
), locked AS MATERIALIZED (
    SELECT e.id, open.lease, open.owner, open.seq, open.first
      FROM open
     CROSS JOIN LATERAL (
           SELECT id FROM outbox_events WHERE id = open.id AND CASE WHEN published_at IS NULL AND dead_at IS NULL THEN true ELSE false END
              FOR UPDATE SKIP LOCKED) AS e
), charged AS (
    UPDATE outbox_events AS e
       SET attempt_count = e.attempt_count + 1,
           last_error = coalesce(nullif(regexp_replace(e.last_error, '(^|; then the )lease of publisher \S+` + expiredSuffix + `$', ''), '') || '; then the ', '')
                     || 'lease of publisher ' || ((SELECT jsonb_object_agg(id, owner) FROM locked) ->> e.id::text) || '` + expiredSuffix + `'
     WHERE e.id = ANY (ARRAY(SELECT id FROM locked WHERE first))
), named AS MATERIALIZED (
    SELECT lease, range_agg(int8range(seq, seq, '[]')) AS seqs FROM open GROUP BY lease
), freed AS MATERIALIZED (
    SELECT lease, range_agg(int8range(seq, seq, '[]')) AS seqs FROM locked GROUP BY lease
), left_over AS MATERIALIZED (
    SELECT ended.id, coalesce(named.seqs, '{}') - coalesce(freed.seqs, '{}') AS seqs
      FROM ended
      LEFT JOIN named ON named.lease = ended.id
      LEFT JOIN freed ON freed.lease = ended.id
), deleted AS (
    DELETE FROM outbox_leases USING left_over WHERE outbox_leases.id = left_over.id AND isempty(left_over.seqs)
)
UPDATE outbox_leases SET seqs = left_over.seqs FROM left_over WHERE outbox_leases.id = left_over.id AND NOT isempty(left_over.seqs)`

// expiredSuffix ends the error of a row whose last lease ended without a verdict. What the broker
// last said of it stands before.
const expiredSuffix = ` expired without a verdict`

// lockedAndTaken are the ranges of locked rows that leases name. The leases are found by
// their index and cut to what is locked before they are unpacked: one of 500 scattered rows
// has 500 ranges.
const lockedAndTaken = `SELECT range_agg(named)
      FROM (SELECT unnest(l.seqs * (SELECT seqs FROM all_locked)) AS named
              FROM outbox_leases AS l
             WHERE l.seqs && (SELECT seqs FROM all_locked)) AS met`

// leaseSQL leases what the statement before has locked and no lease names. It answers
// with a few bytes.
//
//	$1 owner, $2 lease in milliseconds, $3 its id
const leaseSQL = `
WITH all_locked AS MATERIALIZED (
    SELECT current_setting('` + lockedRows + `')::int8multirange AS seqs
), leased AS (
    SELECT seqs - coalesce((` + lockedAndTaken + `), '{}') AS seqs FROM all_locked
)` + insertLease

// leaseOrderedSQL does the same for runs: each is leased up to the first row that a
// lease names.
//
//	$1 owner, $2 lease in milliseconds, $3 its id
const leaseOrderedSQL = `
WITH locked AS MATERIALIZED (
    SELECT seq, run
      FROM unnest(current_setting('` + lockedRows + `')::bigint[], current_setting('` + lockedRuns + `')::bigint[]) AS u(seq, run)
), all_locked AS MATERIALIZED (
    SELECT range_agg(int8range(seq, seq, '[]')) AS seqs FROM locked
), taken AS MATERIALIZED (
    SELECT coalesce((` + lockedAndTaken + `), '{}') AS seqs
), leased AS (
    SELECT coalesce(range_agg(int8range(seq, seq, '[]')), '{}') AS seqs
      FROM (SELECT seq, bool_and(NOT (SELECT seqs FROM taken) @> seq) OVER (PARTITION BY run ORDER BY seq ROWS UNBOUNDED PRECEDING) AS free
              FROM locked) AS looked
     WHERE free
)` + insertLease

const insertLease = `
INSERT INTO outbox_leases (id, owner, until, seqs)
SELECT $3::bigint, $1::text::uuid, now() + $2::bigint * interval '1 millisecond', seqs FROM leased WHERE NOT isempty(seqs)
RETURNING ` + leaseRowsOf

// readSQL reads the rows of the lease in the order of seq, with their contents up to the
// byte budget.
//
// A claim ends at its byte budget, counted by what is printed: a row can be a
// hundred times its stored size where that is compressed, and ten thousand times
// where it holds numbers such as 1e131071. A row that is larger than the whole
// budget is still taken, alone; one that is larger than any message comes without
// its contents. Printing is most of a claim's cost, so each row is printed once
// and none behind the budget: the sum is kept in a setting of the transaction
// (claimedBytes), which is read before a row is printed and written after it. A
// running sum over all rows would have to print all of
// them first. Writing the setting costs as much as printing a small row: rows so
// small that all of them are a quarter of the budget are not counted, so a claim
// can be larger by that quarter. OFFSET 0 keeps the steps apart.
//
//	$1 lease, $2 limit, $3 bytes, $4 bytes of a row
const readSQL = `
SELECT ` + rowColumns + `, bytes, CASE WHEN bytes <= $4::bigint THEN payload END, CASE WHEN bytes <= $4::bigint THEN headers END,
       CASE WHEN bytes > $3::bigint / (4 * $2::bigint) THEN set_config('` + claimedBytes + `', (before + bytes)::text, true) END
  FROM (SELECT *, octet_length(payload) + coalesce(octet_length(headers), 0) AS bytes
          FROM (SELECT ` + rowNames + `, before, payload_json::text AS payload, headers::text
                  FROM (SELECT *, current_setting('` + claimedBytes + `')::bigint AS before FROM (` + leasedRows + `) AS leased OFFSET 0) AS counted
                 WHERE before < $3::bigint
                OFFSET 0) AS printed
        OFFSET 0) AS measured`

// rowsSQL reads the rows of the lease without their contents, for who reads those one by
// one.
//
//	$1 lease
const rowsSQL = `SELECT ` + rowColumns + `, 0::bigint, NULL::text, NULL::text, NULL::text FROM (` + leasedRows + `) AS leased`

// leasedRows walks the ranges of the lease, each along the claim index.
const leasedRows = `
SELECT l.lease, e.*
  FROM (SELECT id AS lease, unnest(seqs) AS named FROM outbox_leases WHERE id = $1::bigint OFFSET 0) AS l
 CROSS JOIN LATERAL (SELECT id, seq, event_type, aggregate_type, aggregate_id, created_at, deliver_at, attempt_count, last_error, max_attempts,
                            namespace, tenant_id, dedupe_key, ordering_key, broker_message_id, payload_json, headers
                       FROM outbox_events
                      WHERE seq >= lower(l.named) AND seq < upper(l.named) AND published_at IS NULL AND dead_at IS NULL
                      ORDER BY seq
                     OFFSET 0) AS e`

const rowNames = `lease, id, seq, event_type, aggregate_type, aggregate_id, created_at, deliver_at, attempt_count, last_error, max_attempts,
                       namespace, tenant_id, dedupe_key, ordering_key, broker_message_id`

const rowColumns = `id::text, lease, seq, event_type::text, aggregate_type::text, aggregate_id::text,
       created_at, coalesce(deliver_at, created_at), now(), attempt_count, coalesce(last_error, ''), coalesce(max_attempts, 0), coalesce(last_error LIKE '%` + expiredSuffix + `', false),
       namespace, coalesce(tenant_id::text, ''), coalesce(dedupe_key, ''), coalesce(ordering_key, ''), coalesce(broker_message_id, '')`

// claimedBytes is the setting that counts what a claim has printed.
const claimedBytes = "outboxctl.claimed_bytes"

// countFromZero begins a claim's count.
const countFromZero = `SELECT set_config('` + claimedBytes + `', '0', true)`

// keepSQL gives back what is leased but for some rows, and tells whether that ended the
// lease. No event is written.
//
//	$1 owner, $2 lease, $3 the seqs to keep
const keepSQL = `
WITH kept AS MATERIALIZED (
    SELECT range_agg(int8range(seq, seq, '[]')) AS seqs FROM unnest($3::bigint[]) AS seq
), deleted AS (
    DELETE FROM outbox_leases WHERE id = $2::bigint AND owner = $1::text::uuid AND (SELECT seqs FROM kept) IS NULL RETURNING id
), shrunk AS (
    UPDATE outbox_leases SET seqs = outbox_leases.seqs * kept.seqs FROM kept
     WHERE id = $2::bigint AND owner = $1::text::uuid AND kept.seqs IS NOT NULL
)
SELECT EXISTS (SELECT FROM deleted)`

// heldSQL counts what is leased to a publisher.
const heldSQL = `
SELECT coalesce(sum(` + leaseRowsOf + `), 0)::bigint, coalesce(max(until), now())
  FROM outbox_leases
 WHERE owner = $1::text::uuid AND until > now()`
