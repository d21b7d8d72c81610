package stats

const (
	// One walk over outbox_events_seq_claim_idx. A row whose lease has run out is due again.
	backlogQuery = `
SELECT now(),
       count(*),
       count(*) FILTER (WHERE (locked_until IS NULL OR locked_until <= now()) AND next_attempt_at <= now()),
       count(*) FILTER (WHERE (locked_until IS NULL OR locked_until <= now()) AND next_attempt_at > now()),
       count(*) FILTER (WHERE locked_until > now()),
       count(*) FILTER (WHERE attempt_count >= coalesce(max_attempts, $1::int)),
       min(created_at),
       count(*) FILTER (WHERE created_at > now() - interval '1 minute')
  FROM outbox_events
 WHERE published_at IS NULL AND dead_at IS NULL`

	// Dead events are read from outbox_events_dead_at_idx; they are few.
	deadQuery = `
SELECT count(*),
       count(*) FILTER (WHERE created_at > now() - interval '1 minute'),
       count(*) FILTER (WHERE dead_at > now() - interval '1 minute')
  FROM outbox_events
 WHERE published_at IS NULL AND dead_at IS NOT NULL`

	// The same walk, joined with the dead letters: a discarded one raises no alarm.
	deadAtMaxQuery = `
SELECT count(*)
  FROM outbox_events AS e
 WHERE published_at IS NULL AND dead_at IS NOT NULL AND attempt_count >= coalesce(max_attempts, $1::int)
   AND EXISTS (SELECT FROM outbox_dlq AS d WHERE d.event_id = e.id AND d.state = 'open')`

	// Ranges of outbox_events_published_at_idx.
	publishedQuery = `
SELECT count(*) FILTER (WHERE published_at > now() - interval '1 minute'),
       count(*) FILTER (WHERE published_at > now() - interval '5 minutes'),
       count(*),
       has_table_privilege('outbox_audit', 'SELECT')
  FROM outbox_events
 WHERE published_at > now() - interval '1 hour'`

	// What cleanups of the last hour may have removed; an earlier one cannot have removed anything published since. A
	// dispatcher's role may not read the audit.
	cleanedQuery = `
SELECT max((detail #>> '{events,olderThan}')::timestamptz)
  FROM outbox_audit
 WHERE at > now() - interval '1 hour' AND action = 'cleanup'`

	// What came in and was published within the minute.
	arrivedQuery = `
SELECT count(*)
  FROM outbox_events
 WHERE published_at > now() - interval '1 minute' AND created_at > now() - interval '1 minute'`

	dlqQuery = `SELECT error_reason::text, count(*) FROM outbox_dlq WHERE state = 'open' GROUP BY 1`

	publishersQuery = `
SELECT id::text, host, pid, version, started_at, last_seen_at, state
  FROM outbox_publishers
 WHERE last_seen_at > now() - $1::interval
 ORDER BY started_at, id`

	// %s is a column of the allow-list in groupColumns.
	groupQuery = `
SELECT coalesce(%s::text, ''),
       count(*),
       count(*) FILTER (WHERE (locked_until IS NULL OR locked_until <= now()) AND next_attempt_at <= now()),
       count(*) FILTER (WHERE (locked_until IS NULL OR locked_until <= now()) AND next_attempt_at > now()),
       count(*) FILTER (WHERE locked_until > now()),
       count(*) FILTER (WHERE attempt_count >= coalesce(max_attempts, $1::int)),
       min(created_at)
  FROM outbox_events
 WHERE published_at IS NULL AND dead_at IS NULL
 GROUP BY 1`

	dlqGroupQuery = `SELECT coalesce(%s::text, ''), count(*) FROM outbox_dlq WHERE state = 'open' GROUP BY 1`
)
