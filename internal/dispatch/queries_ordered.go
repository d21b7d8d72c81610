package dispatch

// openRows is the predicate of a row that has its place in its key: neither
// published nor passed. It is that of the index outbox_events_turn_idx.
const openRows = `ordering_key IS NOT NULL AND published_at IS NULL AND passed_at IS NULL`

// runRows is how many rows of a key a claim takes where it has seen fewer: what
// follows lies behind its window, and a request of two costs about what one of one does.
const runRows = `16`

// orderedRuns locks, key by key, the rows whose turn it is. The run of a key
// begins at its first open row and has no gap. What makes that certain is
// place = n: the publisher that leases row n of a key holds the locks of the rows 1 to n-1, each
// read again at its newest version. An open row only ever leaves that set, so an
// old snapshot takes less, never more. Nothing narrows the look at a key: a row
// that the filters hide, or the hint, or a lock, is still the one whose turn it is.
//
// still are keys to leave out because nothing of them can be sent: in a sweep
// those whose first open row is dead, or their followers would fill every window;
// always those that this publisher is sending. seen is what is due, and locks
// nothing: a limit on locked rows would be used up by rows whose turn it is not.
// The CASE keeps the planner on the primary key, and the order and the limit of a
// key's first row keep it from reading all open rows instead, as it did for NOT EXISTS.
//
// last_owner is that of the first row alone: the end of a lease is charged to it,
// the others were not sent.
//
//	$1 to $6 as dueNow and inSpan, $7 limit, $12 rows to see, $13 most rows of one key, $14 sweep, $15 busy keys,
//	$16 keys to look at first
const orderedRuns = `
WITH still AS MATERIALIZED (
    SELECT d.ordering_key
      FROM (SELECT ordering_key, min(seq) AS seq
              FROM outbox_events
             WHERE ` + openRows + ` AND dead_at IS NOT NULL AND $14::bool
             GROUP BY ordering_key) AS d
     WHERE seq = (SELECT seq FROM outbox_events WHERE ordering_key = d.ordering_key AND ` + openRows + ` ORDER BY seq LIMIT 1)
     UNION ALL
    SELECT unnest($15::text[])
), seen AS MATERIALIZED (
    SELECT ordering_key, seq
      FROM outbox_events
     WHERE ` + dueNow + inSpan + `
       AND ordering_key IS NOT NULL AND ordering_key NOT IN (SELECT ordering_key FROM still)
     ORDER BY seq
     LIMIT $12
), keys AS MATERIALIZED (
    SELECT ordering_key, min(seq) AS first, least(greatest(sum(rows), ` + runRows + `), $13::bigint) AS most
      FROM (SELECT ordering_key, seq, 1 AS rows FROM seen
             UNION ALL
            SELECT key, -place, $13::bigint FROM unnest($16::text[]) WITH ORDINALITY AS u(key, place)) AS wanted
     GROUP BY ordering_key
     ORDER BY first
), locked AS MATERIALIZED (
    SELECT e.id, e.locked_by, e.payload_json, e.headers, k.first, r.n
      FROM keys AS k
     CROSS JOIN LATERAL (
           SELECT row_id, row_number() OVER w AS n, bool_and(due) OVER w AS ok
             FROM (SELECT id AS row_id, seq AS row_seq, ` + dueNow + ` AS due
                     FROM outbox_events
                    WHERE ordering_key = k.ordering_key AND ` + openRows + `
                    ORDER BY seq
                    LIMIT k.most) AS h
           WINDOW w AS (ORDER BY row_seq ROWS UNBOUNDED PRECEDING)) AS r
      JOIN outbox_events AS e ON e.id = r.row_id
     WHERE r.ok AND CASE WHEN ` + dueNow + ` THEN true ELSE false END
     LIMIT $7
       FOR UPDATE OF e SKIP LOCKED
), runs AS (
    SELECT id, CASE WHEN n = 1 THEN locked_by END AS locked_by, payload_json, headers, first, n
      FROM (SELECT *, row_number() OVER (PARTITION BY first ORDER BY n) AS place FROM locked) AS placed
     WHERE place = n
     ORDER BY first, n
)`

// orderedSQL leases runs. Its last row, which has no id, says how far it has seen:
// the largest seq, how many rows, and how many it has locked.
//
//	$8 bytes, $9 owner, $10 lease in milliseconds, $11 bytes of a row
const orderedSQL = orderedRuns + `, leased AS (` + leasePicked + printBefore + `runs` + printAfter + returnPicked + returnPrinted + `
)
SELECT * FROM leased
 UNION ALL
SELECT '', now(), coalesce((SELECT max(seq) FROM seen), 0), '', '', '', now(), (SELECT count(*)::int FROM seen), '',
       (SELECT count(*)::int FROM locked), false, '', '', '', '', 0, NULL, NULL`

// orderedCandidatesSQL locks runs without looking into them. Its parameters are
// those of orderedSQL, so it has to name them all.
const orderedCandidatesSQL = orderedRuns + `
SELECT id::text FROM runs WHERE ($8::bigint, $9::text, $10::bigint, $11::bigint) IS NOT NULL ORDER BY first, n`

// keepOrder begins a claim's count and says that the claim keeps the order, which
// the trigger outbox_events_refuse_disorder asks for.
const keepOrder = `
SELECT set_config('` + claimedBytes + `', '0', true), set_config('outboxctl.keeps_order', 'on', true)`

// takeTurns lets one publisher after the other claim runs: side by side they lock
// parts of the same keys, and half of them come back empty. It is thrift and not
// safety, so it is not waited for longer: a client that is stopped may hold it.
const takeTurns = `
SELECT set_config('lock_timeout', '100ms', true), pg_advisory_xact_lock(1870034018, 2)`

// orderedDueSQL asks whether a claim of runs has anything to look at.
const orderedDueSQL = `
SELECT count(*) > 0
  FROM (SELECT 1 FROM outbox_events WHERE ` + dueNow + inSpan + ` AND ordering_key IS NOT NULL ORDER BY seq LIMIT 1) AS first`
