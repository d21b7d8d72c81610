package main

// orderedMutants are bugs in keeping the order of ordering keys.
func orderedMutants() []mutant {
	const orderedRuns, failing = "internal/dispatch orderedRuns", "broker.lost_reply,broker.error"
	return []mutant{
		// What was locked may have changed since the snapshot: within a millisecond, since claims of runs take turns.
		planted("order-by-snapshot-only", "", runs, orderedRuns,
			"WHERE r.ok AND CASE WHEN ` + dueNow + ` THEN true ELSE false END", "WHERE r.ok"),
		planted("runs-leased-without-look", "", "I5 I10 I12", "internal/dispatch leaseOrderedSQL",
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
			`		v.add(d.bury(g))
		return len(g.rows), true, nil
`, `		v.add(d.bury(g))
		return len(g.rows), false, nil
`),
		planted("discard-does-not-release", "", "I5", "migrations outbox_discard",
			`SET passed_at = now()`, `SET last_error = e.last_error`),
		planted("restore-does-not-hold", "", "I5", "migrations outbox_restore",
			`SET passed_at = NULL`, `SET last_error = e.last_error`),
		planted("followers-charged", "publisher.kill,publisher.crash:publish.claimed", "I11",
			"internal/dispatch expiredSQL", `WHERE e.id = locked.id AND locked.first`, `WHERE e.id = locked.id`),
	}
}
