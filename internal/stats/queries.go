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
       count(*) FILTER (WHERE attempt_count >= coalesce(max_attempts, $1::int)),
       count(*) FILTER (WHERE created_at > now() - interval '1 minute')
  FROM outbox_events
 WHERE published_at IS NULL AND dead_at IS NOT NULL`

	// Ranges of outbox_events_published_at_idx. The last figure is what came in and went out within the minute.
	publishedQuery = `
SELECT count(*) FILTER (WHERE published_at > now() - interval '1 minute'),
       count(*) FILTER (WHERE published_at > now() - interval '5 minutes'),
       count(*)
  FROM outbox_events
 WHERE published_at > now() - interval '1 hour'`

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
