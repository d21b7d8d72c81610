package main

import "time"

// mutant is a bug that could be written, planted to see whether it is found.
type mutant struct {
	name string
	// edits plant it, one after the other.
	edits []edit
	// adds is Go code that the edits need.
	adds []addition
	// faults that bring it out; none means that the workload alone does.
	faults string
	// patience with the consumers, for a bug that shows in what they never do.
	patience time.Duration
	// breaks are the invariants of which at least one must be found broken.
	breaks []string
}

// catalogue lists the planted bugs.
func catalogue() []mutant {
	return append(append(orderedMutants(), operatorMutants()...), []mutant{
		{
			name: "settle-before-publish",
			edits: []edit{{"internal/dispatch Dispatcher.sendRequest", `	failpoint.Hit(failpoint.Sending)
	ctx, cancel := context.WithTimeout(abandon, d.cfg.PublishTimeout)
`, `	ctx, cancel := context.WithTimeout(abandon, d.cfg.PublishTimeout)
	early := Verdicts{Published: column(g.rows, func(r *Claimed) Published { return Published{r.Key, "early"} })}
	_, _ = d.store.Settle(ctx, early)
	failpoint.Hit(failpoint.Sending)
`}},
			faults: "publisher.crash:publish.sending", breaks: []string{"I1"},
		},
		{
			name:   "settle-without-fence",
			edits:  []edit{{"internal/dispatch inLease", `JOIN held ON held.id = v.lease AND held.seqs @> v.seq`, `LEFT JOIN held ON held.id = v.lease`}},
			faults: "publisher.stop", breaks: []string{"I10"},
		},
		{
			name:   "expired-lease-never-reclaimed",
			edits:  []edit{{"internal/dispatch expiredSQL", `WHERE until <= now() FOR UPDATE`, `WHERE until <= now() - interval '1 year' FOR UPDATE`}},
			faults: "publisher.kill,publisher.crash:publish.claimed", breaks: []string{"I9"},
		},
		{
			name: "lease-by-the-applications-clock",
			edits: []edit{
				{"internal/dispatch insertLease", `now() + $2::bigint * interval '1 millisecond'`, `to_timestamp($2::bigint / 1000.0)`},
				{"internal/dispatch SQLStore.queueLease", `p.Lease.Milliseconds()`, `time.Now().Add(p.Lease).UnixMilli()`},
			},
			// The seed's database lives ten minutes in the past: a lease outlives its publisher by that much.
			faults: "publisher.kill,publisher.crash:publish.claimed", breaks: []string{"I9", "I10", "I12"},
		},
		{
			// A snapshot older than the locks: what others leased in between is leased once more.
			name:   "lock-without-look",
			edits:  []edit{{"internal/dispatch lockedAndTaken", `WHERE l.seqs && (SELECT`, `WHERE false AND l.seqs && (SELECT`}},
			breaks: []string{"I10", "I12"},
		},
		{
			name: "lease-shrunk-in-a-transaction-of-its-own",
			edits: []edit{
				{"internal/dispatch SQLStore.queue", `	b.Queue(shrinkSQL, s.owner, ids, first, last)
`, "	b.Queue(`COMMIT`)\n	b.Queue(beginReadCommitted)\n	b.Queue(shrinkSQL, s.owner, ids, first, last)\n"},
				{"internal/dispatch readSettle", `	if err := skip(br, 1); err != nil {
		return err
	}
	return readCommit(br)`, `	if err := skip(br, 3); err != nil {
		return err
	}
	return readCommit(br)`},
			},
			breaks: []string{"I10"},
		},
		{
			name: "last-id-cursor",
			edits: []edit{{"internal/dispatch cursor.next", `	due := force || !now.Before(c.nextSweep)
	switch {`,
				`	due := c.low == 0
	switch {
	case c.low > 0:
		return span{after: c.low, began: now}`}},
			breaks: []string{"I9"},
		},
		{
			name: "mark-first-and-never-release",
			edits: []edit{{"consume Guard.Process", `	claim, state, err := g.Begin(ctx, id)
`, `	seen, err := g.CheckAndMarkProcessed(ctx, id, g.opts.TTL)
	if err == nil && seen {
		return Duplicate, nil
	}
	if err == nil {
		if err := guarded(ctx, handler); err != nil {
			return Failed, err
		}
		return Processed, nil
	}
	claim, state, err := g.Begin(ctx, id)
`}},
			faults: "consumer.crash:consume.begun", breaks: []string{"I6"}, patience: time.Minute,
		},
		{
			name: "emit-on-another-connection",
			edits: []edit{{"emit Emitter.Write", `		return tx.Query(ctx, emitManySQL, pgx.QueryExecModeExec, text)
`, `		conn, err := pgx.ConnectConfig(ctx, tx.Conn().Config())
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, emitManySQL, pgx.QueryExecModeExec, text); err != nil {
			return nil, err
		}
		return tx.Query(ctx, emitManySQL, pgx.QueryExecModeExec, text)
`}},
			breaks: []string{"I2", "I4"},
		},
		{
			name: "dead-letter-in-a-transaction-of-its-own",
			edits: []edit{
				{"internal/dispatch SQLStore.Settle", `	b := newBatch()
`, `	if len(v.Dead) > 0 {
		var marked int
		err := s.settles.QueryRow(ctx, markDeadSQL, column(v.Dead, func(d Dead) string { return d.ID })).Scan(&marked)
		if err != nil {
			return Settled{}, err
		}
		failpoint.Hit(failpoint.DeadLettering)
	}
	b := newBatch()
`},
				{"internal/dispatch fence", ` AND e.dead_at IS NULL`, ``},
			},
			adds: []addition{{"internal/dispatch", `package dispatch

const markDeadSQL = ` + "`" + `
WITH marked AS (
    UPDATE outbox_events AS e SET dead_at = now(), last_error = 'dead'
      FROM unnest($1::text[]::uuid[]) AS v (id) WHERE e.id = v.id AND e.published_at IS NULL AND e.dead_at IS NULL RETURNING e.id)
SELECT count(*) FROM marked` + "`" + `
`}},
			faults: "publisher.crash:settle.dead_lettering", breaks: []string{"I7"},
		},
		{
			name:  "payload-marshalled-again",
			edits: []edit{{"internal/dispatch prepare", `Data: row.Payload`, `Data: again(row.Payload)`}},
			adds: []addition{{"internal/dispatch", `package dispatch

import "encoding/json"

func again(payload []byte) []byte {
	var v any
	_ = json.Unmarshal(payload, &v)
	text, _ := json.Marshal(v)
	return text
}
`}},
			breaks: []string{"I8"},
		},
		{
			name: "cleanup-by-age-only",
			edits: []edit{
				{"migrations outbox_cleanup_events", `         WHERE e.published_at IS NOT NULL
           AND e.published_at < older_than
           AND e.published_at >= coalesce(from_published, '-infinity')
         ORDER BY e.published_at
`, `         WHERE e.created_at < older_than
         ORDER BY e.created_at
`},
				{"migrations outbox_cleanup_events", `e.id = gone.id AND e.published_at IS NOT NULL`, `e.id = gone.id`},
			},
			faults: "broker.away", breaks: []string{"I15"},
		},
		{
			name: "outage-burns-attempts",
			edits: []edit{
				{"internal/dispatch Dispatcher.conclude", `d.tripped(br, br.trip(generation, now, j.sentTo, j.outage), waitOf(j.outage))`, `_ = generation`},
				{"internal/dispatch Dispatcher.askFirst", `if !anyFailedBefore(rows) {`, `if true {`},
			},
			faults: "broker.away", breaks: []string{"I7"},
		},
		{
			name:   "safe-to-retry-believed",
			edits:  []edit{{"internal/outbox emitWriter.outcome", `if errors.As(cause, &refused)`, `if pgconn.SafeToRetry(cause) || errors.As(cause, &refused)`}},
			breaks: []string{"I3"},
		},
		{
			name:   "lease-released-while-the-publish-may-land",
			edits:  []edit{{"internal/dispatch group.leave", `case errors.Is(r.Err, ErrUnsent):`, `case errors.Is(r.Err, ErrUnsent), r.Err != nil:`}},
			faults: "publisher.term", breaks: []string{"I12"},
		},
		{
			// Only what happened to the very row tells this from a duplicate that the fault explains.
			name: "one-failure-fails-the-batch",
			edits: []edit{{"internal/broker/pubsub Publisher.Publish", `		wg.Wait()
`, `		wg.Wait()
		for _, r := range results {
			if r.Err != nil && dispatch.ClassOf(r.Err) == dispatch.Retryable {
				return broker.All(len(results), r.Err)
			}
		}
`}},
			faults: "broker.lost_reply", breaks: []string{"I12"},
		},
		{
			name:   "replay-leaves-the-dead-mark",
			edits:  []edit{{"migrations outbox_replay", `SET dead_at = NULL, passed_at = NULL, attempt_count = 0`, `SET attempt_count = 0`}},
			breaks: []string{"I7", "I1", "I9"},
		},
	}...)
}
