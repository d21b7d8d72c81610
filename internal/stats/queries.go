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

	// What died within the minute, by outbox_events_dead_at_idx, and how much of it also came in within the minute.
	diedQuery = `
SELECT count(*), count(*) FILTER (WHERE created_at > now() - interval '1 minute')
  FROM outbox_events
 WHERE dead_at > now() - interval '1 minute'`

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

	// Dead letters are counted when they are written (migration 00021). A dead event has one that is open or discarded.
	dlqQuery = `SELECT state, error_reason, sum(n)::bigint FROM outbox_dlq_counts GROUP BY 1, 2 HAVING sum(n) <> 0`

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

	dlqGroupQuery = `SELECT %s, sum(n)::bigint FROM outbox_dlq_counts WHERE state = 'open' GROUP BY 1 HAVING sum(n) <> 0`

	// Tenants may be as many as dead letters, so they are not counted when these are written.
	dlqTenantQuery = `SELECT coalesce(tenant_id::text, ''), count(*) FROM outbox_dlq WHERE state = 'open' GROUP BY 1`
)

// strandedQuery counts what waits of few types. It walks the claim index, which is what waits.
const strandedQuery = `
SELECT event_type::text, count(*), min(created_at)
  FROM outbox_events
 WHERE published_at IS NULL AND dead_at IS NULL AND event_type::text = ANY ($1::text[])
 GROUP BY 1 ORDER BY 1`
