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
// What is locked is found by where its version lies: a plan that was made while the table
// had a row would compare all rows with all keys for a join by id. A row that has a newer
// version meanwhile is skipped; older releases of PostgreSQL compare that version. The order
// and the limit of a key's first row keep the planner from reading all open rows instead, as
// it did for NOT EXISTS.
//
// A row that is leased, like one that is not due, ends the run before it. What is leased
// is looked at again by leaseOrderedSQL.
//
//	$1 to $6 as dueNow and inSpan, $7 limit, $8 rows to see, $9 most rows of one key, $10 sweep, $11 busy keys,
//	$12 keys to look at first
const orderedRuns = `
WITH ` + takenRows + `, still AS MATERIALIZED (
    SELECT d.ordering_key
      FROM (SELECT ordering_key, min(seq) AS seq
              FROM outbox_events
             WHERE ` + openRows + ` AND dead_at IS NOT NULL AND $10::bool
             GROUP BY ordering_key) AS d
     WHERE seq = (SELECT seq FROM outbox_events WHERE ordering_key = d.ordering_key AND ` + openRows + ` ORDER BY seq LIMIT 1)
     UNION ALL
    SELECT unnest($11::text[])
), seen AS MATERIALIZED (
    SELECT ordering_key, seq
      FROM outbox_events
     WHERE ` + dueNow + inSpan + `
       AND ordering_key IS NOT NULL AND ordering_key NOT IN (SELECT ordering_key FROM still) AND ` + freeRow + `
     ORDER BY seq
     LIMIT $8
), keys AS MATERIALIZED (
    SELECT ordering_key, min(seq) AS first, least(greatest(sum(rows), ` + runRows + `), $9::bigint) AS most
      FROM (SELECT ordering_key, seq, 1 AS rows FROM seen
             UNION ALL
            SELECT key, -place, $9::bigint FROM unnest($12::text[]) WITH ORDINALITY AS u(key, place)) AS wanted
     GROUP BY ordering_key
     ORDER BY first
), locked AS MATERIALIZED (
    SELECT e.seq, k.first, r.n
      FROM keys AS k
     CROSS JOIN LATERAL (
           SELECT version, row_number() OVER w AS n, bool_and(due) OVER w AS ok
             FROM (SELECT ctid AS version, seq AS row_seq, ` + dueNow + ` AND ` + freeRow + ` AS due
                     FROM outbox_events
                    WHERE ordering_key = k.ordering_key AND ` + openRows + `
                    ORDER BY seq
                    LIMIT k.most) AS h
           WINDOW w AS (ORDER BY row_seq ROWS UNBOUNDED PRECEDING)) AS r
     CROSS JOIN LATERAL (
           SELECT seq FROM outbox_events WHERE ctid = r.version AND CASE WHEN ` + dueNow + ` THEN true ELSE false END
              FOR UPDATE SKIP LOCKED) AS e
     WHERE r.ok
     LIMIT $7
), runs AS (
    SELECT seq, first
      FROM (SELECT *, row_number() OVER (PARTITION BY first ORDER BY n) AS place FROM locked) AS placed
     WHERE place = n
)`

// lockOrderedSQL locks runs, and keeps which in settings of the transaction: the seq of
// each row, and what tells its run from others. It answers how far it has seen: the
// largest seq, how many rows, and how many it has locked.
const lockOrderedSQL = orderedRuns + `
SELECT set_config('` + lockedRows + `', coalesce(array_agg(seq), '{}')::text, true), set_config('` + lockedRuns + `', coalesce(array_agg(first), '{}')::text, true),
       coalesce((SELECT max(seq) FROM seen), 0), (SELECT count(*) FROM seen), (SELECT count(*) FROM locked)
  FROM runs`

// takeTurns lets one publisher after the other claim runs: side by side they lock
// parts of the same keys, and half of them come back empty. It is thrift and not
// safety, so it is not waited for longer: a client that is stopped may hold it.
const takeTurns = `
SELECT set_config('lock_timeout', '100ms', true), pg_advisory_xact_lock(1870034018, 2)`

// orderedDueSQL asks whether a sweep for runs has anything to look at, orderedDueBehindSQL
// whether another claim has.
const (
	orderedDueSQL       = `WITH ` + heldRows + someRun
	orderedDueBehindSQL = `WITH ` + takenRows + someRun
)

const someRun = `
SELECT count(*) > 0
  FROM (SELECT 1 FROM outbox_events WHERE ` + dueNow + inSpan + ` AND ordering_key IS NOT NULL AND ` + freeRow + ` ORDER BY seq LIMIT 1) AS first`
