package stats

import "github.com/outboxctl/outboxctl/internal/outbox"

const (
	// Keys that stand still behind a dead event that is not discarded, and since which seq. Read from
	// outbox_events_blocking_idx; they are few.
	blockedKeys = `
WITH blocked AS MATERIALIZED (
    SELECT ordering_key, min(seq) AS seq
      FROM outbox_events
     WHERE ordering_key IS NOT NULL AND published_at IS NULL AND dead_at IS NOT NULL AND passed_at IS NULL
     GROUP BY ordering_key
), later AS MATERIALIZED (
    -- Keys that stand still until the time of a scheduled event, by outbox_events_scheduled_idx.
    SELECT ordering_key, min(seq) AS seq
      FROM outbox_events
     WHERE deliver_at > now() AND published_at IS NULL AND dead_at IS NULL AND ordering_key IS NOT NULL
     GROUP BY ordering_key
), leased AS MATERIALIZED (SELECT ` + outbox.Leased + ` AS seqs), limits AS MATERIALIZED (
    -- How often each type is tried, under each name that it has or had.
    SELECT t.namespace, n.name, n.name = t.event_type AS own, (t.options #>> '{policy,maxAttempts}')::int AS most
      FROM outbox_event_types AS t
     CROSS JOIN LATERAL (SELECT t.event_type UNION ALL SELECT jsonb_array_elements_text(t.options -> 'was')) AS n(name)
)`

	// exhausted: no attempt is left, of the event's own, its type's or the publisher's.
	exhausted = `attempt_count > 0 AND attempt_count >= coalesce(max_attempts,
           (SELECT l.most FROM limits AS l WHERE l.name = e.event_type::text AND l.namespace IN ('*', e.namespace)
             ORDER BY l.namespace = '*', NOT l.own LIMIT 1), $1::int)`

	// Neither parked nor scheduled: a publisher can do something about it.
	forPublishers = `b.seq IS NULL AND s.seq IS NULL AND coalesce(e.deliver_at <= now(), true)`
	// Scheduled is what has the status, as event list shows it.
	scheduled = `e.deliver_at > now()`
	// Behind a scheduled event of its ordering key, and neither scheduled nor parked itself.
	behindScheduled = `b.seq IS NULL AND s.seq IS NOT NULL AND coalesce(e.deliver_at <= now(), true)`

	// What waits, whether it is parked (b is not null), and whether a scheduled event of its key is
	// before it (s is not null).
	waitingEvents = `
  FROM outbox_events AS e
  LEFT JOIN blocked AS b ON b.ordering_key = e.ordering_key AND b.seq < e.seq
  LEFT JOIN later AS s ON s.ordering_key = e.ordering_key AND s.seq < e.seq
 WHERE e.published_at IS NULL AND e.dead_at IS NULL`

	// Of what waits: all, due, backing off, in flight and at its last attempt, and since when.
	figures = `
       count(*) FILTER (WHERE ` + forPublishers + `),
       count(*) FILTER (WHERE ` + forPublishers + ` AND NOT (SELECT seqs FROM leased) @> e.seq AND next_attempt_at <= now()),
       count(*) FILTER (WHERE ` + forPublishers + ` AND NOT (SELECT seqs FROM leased) @> e.seq AND next_attempt_at > now()),
       count(*) FILTER (WHERE ` + forPublishers + ` AND (SELECT seqs FROM leased) @> e.seq),
       count(*) FILTER (WHERE ` + exhausted + `),
       min(greatest(e.created_at, e.deliver_at)) FILTER (WHERE ` + forPublishers + `),`

	// One walk over outbox_events_seq_claim_idx. A row whose lease has run out is due again. What is
	// parked waits for an operator and what is scheduled for its time, not for a publisher: it is no
	// backlog and counts apart.
	backlogQuery = blockedKeys + `
SELECT now(), ` + figures + `
       count(*) FILTER (WHERE ` + forPublishers + ` AND created_at > now() - interval '1 minute'),
       count(b.seq),
       (SELECT count(*) FROM blocked),
       min(created_at) FILTER (WHERE b.seq IS NOT NULL),
       count(*) FILTER (WHERE ` + scheduled + `),
       count(*) FILTER (WHERE ` + behindScheduled + `)` + waitingEvents

	// What died within the minute, by outbox_events_dead_at_idx, and how much of it also came in
	// within the minute.
	diedQuery = `
SELECT count(*), count(*) FILTER (WHERE created_at > now() - interval '1 minute')
  FROM outbox_events
 WHERE dead_at > now() - interval '1 minute'`

	// Ranges of outbox_events_published_at_idx, which is all that is read where the table was
	// vacuumed. Each is counted by itself: to compare every row of the hour with the shorter spans
	// takes as long again as to count it.
	publishedQuery = `
SELECT (SELECT count(*) FROM outbox_events WHERE published_at > now() - interval '1 minute'),
       (SELECT count(*) FROM outbox_events WHERE published_at > now() - interval '5 minutes'),
       (SELECT count(*) FROM outbox_events WHERE published_at > now() - interval '1 hour'),
       has_table_privilege('outbox_audit', 'SELECT')`

	// What cleanups of the last hour may have removed; an earlier one cannot have removed anything
	// published since. A dispatcher's role may not read the audit.
	cleanedQuery = `
SELECT max((detail #>> '{events,olderThan}')::timestamptz)
  FROM outbox_audit
 WHERE at > now() - interval '1 hour' AND action = 'cleanup'`

	// What came in and was published within the minute.
	arrivedQuery = `
SELECT count(*)
  FROM outbox_events
 WHERE published_at > now() - interval '1 minute' AND created_at > now() - interval '1 minute'`

	// Dead letters are counted when they are written (migration 00021). A dead event has one that is
	// open or discarded.
	dlqQuery = `SELECT state, error_reason, sum(n)::bigint FROM outbox_dlq_counts GROUP BY 1, 2 HAVING sum(n) <> 0`

	// %s is an expression of the allow-list in groupColumns.
	groupQuery = blockedKeys + `
SELECT coalesce((%s)::text, ''), ` + figures + `
       count(b.seq),
       count(*) FILTER (WHERE ` + scheduled + `)` + waitingEvents + `
 GROUP BY 1`

	dlqGroupQuery = `SELECT %s, sum(n)::bigint FROM outbox_dlq_counts WHERE state = 'open' GROUP BY 1 HAVING sum(n) <> 0`

	// Tenants may be as many as dead letters, so they are not counted when these are written, but read
	// from outbox_dlq_open_tenant_idx alone. Those without a tenant are the rest: counting them would
	// read the table.
	dlqTenantQuery = `
WITH named AS (
    SELECT tenant_id::text AS tenant, count(*) AS n FROM outbox_dlq WHERE state = 'open' AND tenant_id IS NOT NULL GROUP BY 1),
rest AS (
    SELECT (SELECT coalesce(sum(n), 0) FROM outbox_dlq_counts WHERE state = 'open') - (SELECT coalesce(sum(n), 0) FROM named) AS n)
SELECT tenant, n::bigint FROM named UNION ALL SELECT '', n::bigint FROM rest WHERE n <> 0`
)

// waitingOfTypes counts what waits of the types $2, NULL for all: apart for each tenant of $1,
// which publishers have for themselves. It walks the claim index, which is what waits.
const waitingOfTypes = `
SELECT namespace, event_type::text, CASE WHEN tenant_id::text = ANY ($1::text[]) THEN tenant_id::text ELSE '' END, count(*), min(created_at)
  FROM outbox_events
 WHERE published_at IS NULL AND dead_at IS NULL AND ($2::text[] IS NULL OR event_type::text = ANY ($2::text[]))
 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`
