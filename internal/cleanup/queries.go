package cleanup

const (
	// A key beside the one that each batch takes.
	takeTurn = `SELECT pg_try_advisory_xact_lock(hashtextextended('` + turnKey + `'::text, 0::bigint))`

	// Who has a lock of ours. Advisory locks are open to every login of the database, so it need not
	// be a cleanup. Of the sessions of other roles PostgreSQL may show no more than the process.
	whoHolds = `
SELECT concat_ws(', ', 'process ' || l.pid, 'application ' || nullif(a.application_name, ''), 'user ' || a.usename,
                 'since ' || to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"'))
  FROM pg_locks AS l
  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
   AND l.classid::bigint << 32 | l.objid::bigint = hashtextextended($1::text, 0::bigint)
 LIMIT 1`
	turnKey  = "outbox_cleanup_run"
	batchKey = "outbox_cleanup"

	// The transaction that holds the turn is idle on purpose, for as long as the run takes.
	// transaction_timeout came with PostgreSQL 17.
	waitForever = `
SELECT set_config(name, '0', true)
  FROM pg_settings
 WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`

	// The cutoff by the database's clock.
	cutoff = `SELECT now() - $1::interval`

	// One batch each, and how many dead events went with it; the functions delete and add to the run's
	// audit row in one transaction. The types are exact: an overload planted in the schema would win
	// over one that merely fits.
	cleanupBatch = `
SELECT run, deleted, last_at, coalesce(deleted_events, 0), busy
  FROM outbox_cleanup($1::text, $2::timestamptz, $3::timestamptz, $4::int, $5::text, $6::text, $7::jsonb, $8::bigint)`

	// How many rows of the history go in one statement.
	historyBatch   = 5000
	cleanupHistory = `SELECT deleted FROM outbox_cleanup('history'::text, NULL::timestamptz, NULL::timestamptz, $1::int, $2::text, NULL::text, NULL::jsonb, NULL::bigint)`

	// Walks outbox_events_published_at_idx up to the cutoff.
	countEvents = `
SELECT event_type::text AS event_type, count(*)
  FROM outbox_events
 WHERE published_at IS NOT NULL AND published_at < now() - $1::interval
 GROUP BY event_type ORDER BY event_type`

	// Walks inbox_events_processed_at_idx up to the cutoff.
	countInbox = `
SELECT consumer, count(*)
  FROM inbox_events
 WHERE processed_at < now() - $1::interval
 GROUP BY consumer ORDER BY consumer`

	// What consumers failed on, of events that are gone or would go with this run.
	countFailures = `
SELECT f.consumer, count(*)
  FROM outbox_consumer_failures AS f
  LEFT JOIN outbox_events AS e ON e.id = f.event_id
 WHERE f.last_at < now() - $1::interval AND (e.id IS NULL OR e.published_at < now() - $1::interval)
 GROUP BY f.consumer ORDER BY f.consumer`

	// Walks outbox_audit_at_idx up to the cutoff.
	countAudit = `
SELECT action, count(*)
  FROM outbox_audit
 WHERE at < now() - $1::interval
 GROUP BY action ORDER BY action`

	countDLQ = `
SELECT event_type::text AS event_type, count(*)
  FROM outbox_dlq
 WHERE state IN ('replayed', 'discarded') AND state_changed_at < now() - $1::interval
 GROUP BY event_type ORDER BY event_type`

	// The slowest replica that says how far behind it is. Empty without replicas or without the right
	// to look.
	replicaLag = `SELECT coalesce(max(replay_lag), interval '0') FROM pg_stat_replication`
)
