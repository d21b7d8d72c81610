package main

import (
	"strings"
)

// mutant is a bug that could be written, planted to see whether it is found.
type mutant struct {
	name string
	// edits plant it, one after the other.
	edits []edit
	// adds is Go code that the edits need.
	adds []addition
	// faults that bring it out; none means that the workload alone does.
	faults string
	// breaks are the invariants of which at least one must be found broken.
	breaks []string
}

// planted is a mutant of edits, three words each.
func planted(name, faults, breaks string, edits ...string) mutant {
	m := mutant{name: name, faults: faults, breaks: strings.Fields(breaks)}
	for i := 0; i < len(edits); i += 3 {
		m.edits = append(m.edits, edit{edits[i], edits[i+1], edits[i+2]})
	}
	return m
}

func (m mutant) adding(dir, source string) mutant {
	m.adds = append(m.adds, addition{dir, source})
	return m
}

// catalogue lists the planted bugs.
func catalogue() []mutant {
	return append(append(orderedMutants(), operatorMutants()...), []mutant{
		planted("settle-before-publish", "publisher.crash:publish.sending", "I1",
			"internal/dispatch Dispatcher.sendRequest", `	failpoint.Hit(failpoint.Sending)
	ctx, cancel := context.WithTimeout(abandon, d.cfg.PublishTimeout)
`, `	ctx, cancel := context.WithTimeout(abandon, d.cfg.PublishTimeout)
	early := Verdicts{Published: column(g.rows, func(r *Claimed) Published { return Published{r.Key, "early"} })}
	_, _ = d.store.Settle(ctx, early)
	failpoint.Hit(failpoint.Sending)
`),
		planted("settle-without-fence", "publisher.stop", "I10", "internal/dispatch inLease",
			`JOIN held ON held.id = v.lease AND held.seqs @> v.seq`, `LEFT JOIN held ON held.id = v.lease`),
		planted("expired-lease-never-reclaimed", "publisher.kill,publisher.crash:publish.claimed", "I9",
			"internal/dispatch expiredSQL", `WHERE until <= now() FOR UPDATE`, `WHERE until <= now() - interval '1 year' FOR UPDATE`),
		// The seed's database lives ten minutes in the past: a lease outlives its publisher by that much.
		planted("lease-by-the-applications-clock", "publisher.kill,publisher.crash:publish.claimed", "I9 I10 I12",
			"internal/dispatch insertLease", `now() + $2::bigint * interval '1 millisecond'`, `to_timestamp($2::bigint / 1000.0)`,
			"internal/dispatch SQLStore.queueLease", `p.Lease.Milliseconds()`, `time.Now().Add(p.Lease).UnixMilli()`),
		// A snapshot older than the locks: what others leased in between is leased once more.
		planted("lock-without-look", "", "I10 I12", "internal/dispatch lockedAndTaken",
			`WHERE l.seqs && (SELECT`, `WHERE false AND l.seqs && (SELECT`),
		planted("lease-shrunk-in-a-transaction-of-its-own", "", "I10", "internal/dispatch SQLStore.queue",
			`	b.Queue(shrinkSQL, s.owner, ids, first, last)
`, "	b.Queue(`COMMIT`)\n	b.Queue(beginReadCommitted)\n	b.Queue(shrinkSQL, s.owner, ids, first, last)\n",
			"internal/dispatch readSettle", `	if err := skip(br, 1); err != nil {
		return err
	}
	return readCommit(br)`, `	if err := skip(br, 3); err != nil {
		return err
	}
	return readCommit(br)`),
		planted("last-id-cursor", "", "I9", "internal/dispatch cursor.next",
			`	due := force || !now.Before(c.nextSweep)
	switch {`, `	due := c.low == 0
	switch {
	case c.low > 0:
		return span{after: c.low, began: now}`),
		planted("mark-first-and-never-release", "consumer.crash:consume.begun", "I6",
			"consume Guard.Process", `	claim, state, err := g.Begin(ctx, id)
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
`),
		planted("emit-on-another-connection", "", "I2 I4", "emit Emitter.Write",
			`		return tx.Query(ctx, emitManySQL, pgx.QueryExecModeExec, text)
`, `		conn, err := pgx.ConnectConfig(ctx, tx.Conn().Config())
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, emitManySQL, pgx.QueryExecModeExec, text); err != nil {
			return nil, err
		}
		return tx.Query(ctx, emitManySQL, pgx.QueryExecModeExec, text)
`),
		planted("dead-letter-in-a-transaction-of-its-own", "publisher.crash:settle.dead_lettering", "I7",
			"internal/dispatch SQLStore.Settle", `	b := newBatch()
`, `	if len(v.Dead) > 0 {
		var marked int
		err := s.settles.QueryRow(ctx, markDeadSQL, column(v.Dead, func(d Dead) string { return d.ID })).Scan(&marked)
		if err != nil {
			return Settled{}, err
		}
		failpoint.Hit(failpoint.DeadLettering)
	}
	b := newBatch()
`,
			"internal/dispatch fence", ` AND e.dead_at IS NULL`, ``).adding("internal/dispatch", `package dispatch

const markDeadSQL = `+"`"+`
WITH marked AS (
    UPDATE outbox_events AS e SET dead_at = now(), last_error = 'dead'
      FROM unnest($1::text[]::uuid[]) AS v (id) WHERE e.id = v.id AND e.published_at IS NULL AND e.dead_at IS NULL RETURNING e.id)
SELECT count(*) FROM marked`+"`"+`
`),
		planted("payload-marshalled-again", "", "I8", "internal/dispatch prepare",
			`Data: row.Payload`, `Data: again(row.Payload)`).adding("internal/dispatch", `package dispatch

import "encoding/json"

func again(payload []byte) []byte {
	var v any
	_ = json.Unmarshal(payload, &v)
	text, _ := json.Marshal(v)
	return text
}
`),
		planted("cleanup-by-age-only", "broker.away", "I15", "migrations outbox_cleanup",
			`             WHERE e.published_at IS NOT NULL AND e.published_at < older_than AND e.published_at >= from_at
             ORDER BY e.published_at
`, `             WHERE e.created_at < older_than
             ORDER BY e.created_at
`,
			"migrations outbox_cleanup", `e.id = gone.id AND e.published_at IS NOT NULL`, `e.id = gone.id`),
		planted("outage-burns-attempts", "broker.away", "I7", "internal/dispatch Dispatcher.conclude",
			`d.tripped(br, br.trip(generation, now, j.sentTo, j.outage), waitOf(j.outage))`, `_ = generation`,
			"internal/dispatch Dispatcher.askFirst", `if !anyFailedBefore(rows) {`, `if true {`),
		planted("safe-to-retry-believed", "", "I3", "internal/outbox emitWriter.commit",
			`case errors.As(err, &refused)`, `case pgconn.SafeToRetry(err), errors.As(err, &refused)`),
		planted("lease-released-while-the-publish-may-land", "publisher.term", "I12",
			"internal/dispatch group.leave", `case errors.Is(r.Err, ErrUnsent):`, `case errors.Is(r.Err, ErrUnsent), r.Err != nil:`),
		// Only what happened to the very row tells this from a duplicate that the fault explains.
		planted("one-failure-fails-the-batch", "broker.lost_reply", "I12",
			"internal/broker/pubsub Publisher.publish", `	wg.Wait()
`, `	wg.Wait()
	for _, r := range results {
		if r.Err != nil && dispatch.ClassOf(r.Err) == dispatch.Retryable {
			return broker.All(len(results), r.Err)
		}
	}
`),
		planted("replay-leaves-the-dead-mark", "", "I7 I1 I9", "migrations outbox_change",
			`SET dead_at = NULL, passed_at = NULL, attempt_count = 0`, `SET attempt_count = 0`),
	}...)
}

// orderedMutants are bugs in keeping the order of ordering keys.
func orderedMutants() []mutant {
	const orderedRuns, failing = "internal/dispatch orderedRuns", "broker.lost_reply,broker.error"
	return []mutant{
		// What was locked may have changed since the snapshot: within a millisecond, since claims of runs take turns.
		planted("order-by-snapshot-only", "", runs, orderedRuns,
			"SELECT ctid AS version", "SELECT id AS version",
			orderedRuns, "WHERE ctid = r.version AND CASE WHEN ` + dueNow + ` THEN true ELSE false END", "WHERE id = r.version"),
		// The turns hide it while each ends in time.
		planted("runs-leased-without-look", "", leased, "internal/dispatch leaseOrderedSQL",
			`bool_and(NOT (SELECT seqs FROM taken) @> seq)`, `bool_and(true)`),
		planted("order-skips-locked-rows", failing, "I5", orderedRuns,
			`WHERE place = n`, `WHERE place <= n`),
		planted("dead-does-not-block", "", "I5", "internal/dispatch openRows",
			`AND passed_at IS NULL`, `AND passed_at IS NULL AND dead_at IS NULL`),
		planted("filters-in-the-probe", failing, "I5", orderedRuns,
			"WHERE ordering_key = k.ordering_key AND ` + openRows + `\n", "WHERE ordering_key = k.ordering_key AND ` + openRows + ` AND ` + dueNow + `\n"),
		planted("hint-in-the-probe", failing, "I5", orderedRuns,
			"WHERE ordering_key = k.ordering_key AND ` + openRows + `\n", "WHERE ordering_key = k.ordering_key AND ` + openRows + ` AND seq > $1\n"),
		planted("run-goes-on-after-a-failure", failing, "I5", "internal/dispatch Dispatcher.send",
			`n, ended, err = d.sendRequest`, `n, _, err = d.sendRequest`),
		planted("requests-of-a-run-side-by-side", failing, "I5", "internal/dispatch Dispatcher.send",
			`		n, ended, err = d.sendRequest(abandon, request, &v)
`, `		n = len(request.rows)
		go func() {
			var w Verdicts
			_, _, _ = d.sendRequest(abandon, request, &w)
			d.settler.submit(settlement{verdicts: w, done: func() {}})
		}()
`),
		// Keys that differ in their last letter are one run.
		planted("two-keys-in-one-request", "", "I5", "internal/dispatch Dispatcher.splitByKey",
			`g := byKey[row.OrderingKey]`, `g := byKey[row.OrderingKey[:len(row.OrderingKey)-1]]`,
			"internal/dispatch Dispatcher.splitByKey", `byKey[g.key] = g`, `byKey[g.key[:len(g.key)-1]] = g`),
		planted("isolation-side-by-side", "broker.away,broker.slow", "I5",
			"internal/broker/pubsub Publisher.publishInOrder", `return dispatch.InOrder(ctx, msgs, first, func`, `_ = first
	return dispatch.Isolate(ctx, msgs, func`),
		planted("ordering-key-not-sent", "", "I5", "internal/broker/pubsub publishRequest",
			`		backing[i].OrderingKey = msgs[i].OrderingKey
`, ``),
		planted("unfit-head-skipped", "", "I5", "internal/dispatch Dispatcher.sendRequest",
			`		v.add(d.notOffered(g))
		return len(g.rows), true, nil
`, `		v.add(d.notOffered(g))
		return len(g.rows), false, nil
`),
		planted("discard-does-not-release", "", "I5", "migrations outbox_change",
			`SET passed_at = now()`, `SET last_error = e.last_error`),
		planted("restore-does-not-hold", "", "I5", "migrations outbox_change",
			`SET passed_at = NULL`, `SET last_error = e.last_error`),
		planted("followers-charged", "publisher.kill,publisher.crash:publish.claimed", "I11",
			"internal/dispatch expiredSQL", `(SELECT id FROM locked WHERE first)`, `(SELECT id FROM locked)`),
	}
}

// operatorMutants are bugs where two features meet that operators use: the model of lab/model finds
// them. All were there once.
func operatorMutants() []mutant {
	return []mutant{
		// One type on two topics: an outage or a pause of one was taken for the other's.
		planted("topics-by-type-alone", "", model, "internal/outbox Names.where",
			`wanted(e) && e.Namespace == AllNamespaces`, `wanted(e)`,
			"internal/outbox Names.where", `e.Namespace != AllNamespaces && wanted(e) != in.but`, `false && wanted(e) != in.but`),
		planted("pause-by-the-stored-name", "", model, "internal/outbox Names.Called",
			`return called[[2]string{e.Namespace, e.Type}]`, `return false`),
		planted("dedupe-by-the-stored-name", "", model, "migrations outbox_emit_many",
			`AND (r.former IS NULL OR`, `AND (true OR r.former IS NULL OR`),
		planted("edit-by-the-stored-name", "", model, "migrations outbox_correct",
			`coalesce(present, letter.event_type::text)`, `letter.event_type::text`),
		// The newest dead letter of an event is not always the one that the run has changed.
		planted("undo-by-event", "", model, "cmd runAuditUndo",
			`opts.undo = r`, `opts.ids = r.EventIDs`),
		planted("undo-of-what-others-changed", "", model, "internal/dlq Outbox.changedBy",
			`, AuditID: row}`, `}`),
		planted("undo-lifts-anothers-pause", "", model, "migrations outbox_pause_undone",
			`p.audit_id IS DISTINCT FROM coalesce((a.detail ->> 'left')::bigint, a.id)`, `false`),
		// Cleanup removes the audit row, and the correction with it.
		planted("correction-known-by-its-audit-row", "", model, "migrations outbox_change",
			`AND d.corrected_by IS NULL`, `AND NOT EXISTS (SELECT FROM @schema@.outbox_audit AS a WHERE a.id = d.audit_id AND a.action = 'dlq.edit')`,
			"migrations outbox_plan_add", `d.corrected_by IS NOT NULL AS corrected`,
			`EXISTS (SELECT FROM @schema@.outbox_audit AS a WHERE a.id = d.audit_id AND a.action = 'dlq.edit') AS corrected`),
	}
}
