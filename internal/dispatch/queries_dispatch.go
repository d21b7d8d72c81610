package dispatch

// Every statement of a claim or a settle reads the database's clock and none reads ours: a
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
// statement of a millisecond takes a second, so that is off too. What is left to plan
// is the same whatever the values are, and planning it for each would be a third of what a claim
// costs: it is planned once per connection. The settings end with the transaction.
const steerPlanner = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_sort', 'off', true), set_config('enable_memoize', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true)`

// dueNow is the predicate of a row that may be sent, but for its lease: living, due, in
// scope, and not of a topic that takes nothing at the moment. Its first line
// is that of the partial index outbox_events_seq_claim_idx.
//
//	$2 namespace, $3 tenant, $4 only what these texts choose, $5 not what these do, both as outbox.Chosen says. The rows
//	of a topic that is away are walked over again and again, so what leaves out most of them is compared first.
const dueNow = `
       published_at IS NULL AND dead_at IS NULL
   AND next_attempt_at <= now()
   AND ($2::text = '' OR namespace = $2::text)
   AND ($3::text = '' OR tenant_id = nullif($3::text, '')::uuid)
   AND (cardinality($4::text[]) = 0 OR event_type::text = ANY ($4::text[]) OR namespace || ' ' || event_type::text = ANY ($4::text[])
        OR ('* ' || event_type::text = ANY ($4::text[]) AND ' ' || event_type::text || ' ' || namespace <> ALL ($4::text[])))
   AND (cardinality($5::text[]) = 0 OR (event_type::text <> ALL ($5::text[]) AND namespace || ' ' || event_type::text <> ALL ($5::text[])
        AND ('* ' || event_type::text <> ALL ($5::text[]) OR ' ' || event_type::text || ' ' || namespace = ANY ($5::text[]))
        AND namespace || ' ' <> ALL ($5::text[]) AND coalesce(' ' || tenant_id::text, '') <> ALL ($5::text[])))`

// inSpan bounds the walk.
//
//	$1 after seq, $6 through seq
const inSpan = ` AND seq > $1::bigint AND seq <= $6`

// dueRows are the claimable rows that need no order.
const dueRows = dueNow + inSpan + ` AND ordering_key IS NULL`

// lockSQL locks the oldest due rows that no lease names, and keeps which in a setting of
// the transaction. It walks along the gaps between leases: with several publishers most of what
// waits behind a hint is leased by another. SKIP LOCKED walks around rows that another session
// holds.
//
// It locks and does not lease: what it knows of leases is as old as its snapshot, and
// another publisher may have leased a row before it got the lock. leaseSQL looks again.
//
//	$7 limit
const lockSQL = `
WITH candidates AS MATERIALIZED (
    SELECT e.seq
      FROM (SELECT max(behind) OVER leases AS first, lead(first, 1, 9223372036854775807) OVER leases AS behind
              FROM (SELECT $1::bigint + 1 AS first, $1::bigint + 1 AS behind
                     UNION ALL
                    SELECT lower(named), upper(named) FROM outbox_leases, unnest(seqs) AS named
                     WHERE seqs && int8multirange(int8range($1::bigint, nullif($6::bigint, 9223372036854775807), '(]')) AND upper(named) > $1) AS ranges
            WINDOW leases AS (ORDER BY first ROWS UNBOUNDED PRECEDING)) AS gaps
     CROSS JOIN LATERAL (
           SELECT seq
             FROM outbox_events
            WHERE ` + dueNow + ` AND ordering_key IS NULL AND seq >= gaps.first AND seq < gaps.behind AND seq <= $6
            ORDER BY seq
              FOR UPDATE SKIP LOCKED) AS e
     WHERE gaps.first < gaps.behind
     LIMIT $7
)
SELECT count(*), set_config('` + lockedRows + `', coalesce(range_agg(int8range(seq, seq, '[]')), '{}')::text, true) IS NULL FROM candidates`

// keyedSQL looks for rows that the claim leaves alone because they have an ordering
// key. That costs no round trip, and where no key is used an empty index.
//
//	$1 after seq
const keyedSQL = `SELECT ` + keyedBefore + `$1` + keyedAfter

// keyedBefore and keyedAfter ask whether a row with an ordering key waits behind
// the seq between them. Order and limit are those of dueSQL.
const (
	keyedBefore = `
       (SELECT count(*) > 0 FROM (SELECT 1 FROM outbox_events
         WHERE ordering_key IS NOT NULL AND published_at IS NULL AND dead_at IS NULL AND seq > `
	keyedAfter = ` ORDER BY seq LIMIT 1) AS keyed)`
)

// dueSQL asks whether a claim would find anything. It locks nothing. The order
// and the limit are what keeps it on the claim index: EXISTS would drop them
// and might read every published row in search of one that is not.
//
// It answers for a sweep, which ends leases; dueBehindSQL for a claim that ends none.
//
//	$7 as $1 of keyedSQL
const (
	dueSQL       = `WITH ` + heldRows + someDue
	dueBehindSQL = `WITH ` + takenRows + someDue
)

const someDue = `
SELECT (SELECT count(*) > 0 FROM (SELECT 1 FROM outbox_events WHERE ` + dueRows + ` AND ` + freeRow + ` ORDER BY seq LIMIT 1) AS first), ` + keyedBefore + `$7` + keyedAfter
