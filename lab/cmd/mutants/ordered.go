package main

// orderedMutants are bugs in keeping the order of ordering keys.
func orderedMutants() []mutant {
	const runs, failing = "internal/dispatch orderedRuns", "broker.lost_reply,broker.error"
	return []mutant{
		{
			// What was locked may have changed since the snapshot.
			name:   "order-by-snapshot-only",
			edits:  []edit{{runs, "WHERE r.ok AND CASE WHEN ` + dueNow + ` THEN true ELSE false END", "WHERE r.ok"}},
			breaks: []string{"I1", "I5", "I10", "I12"},
		},
		{
			name:   "runs-leased-without-look",
			edits:  []edit{{"internal/dispatch leaseOrderedSQL", `bool_and(NOT (SELECT seqs FROM taken) @> seq)`, `bool_and(true)`}},
			breaks: []string{"I5", "I10", "I12"},
		},
		{
			name:   "order-skips-locked-rows",
			edits:  []edit{{runs, `WHERE place = n`, `WHERE place <= n`}},
			faults: failing, breaks: []string{"I5"},
		},
		{
			name:   "dead-does-not-block",
			edits:  []edit{{"internal/dispatch openRows", `AND passed_at IS NULL`, `AND passed_at IS NULL AND dead_at IS NULL`}},
			breaks: []string{"I5"},
		},
		{
			name:   "filters-in-the-probe",
			edits:  []edit{{runs, "WHERE ordering_key = k.ordering_key AND ` + openRows + `\n", "WHERE ordering_key = k.ordering_key AND ` + openRows + ` AND ` + dueNow + `\n"}},
			faults: failing, breaks: []string{"I5"},
		},
		{
			name:   "hint-in-the-probe",
			edits:  []edit{{runs, "WHERE ordering_key = k.ordering_key AND ` + openRows + `\n", "WHERE ordering_key = k.ordering_key AND ` + openRows + ` AND seq > $1\n"}},
			faults: failing, breaks: []string{"I5"},
		},
		{
			name:   "run-goes-on-after-a-failure",
			edits:  []edit{{"internal/dispatch Dispatcher.send", `n, ended, err = d.sendRequest`, `n, _, err = d.sendRequest`}},
			faults: failing, breaks: []string{"I5"},
		},
		{
			name: "requests-of-a-run-side-by-side",
			edits: []edit{{"internal/dispatch Dispatcher.send", `		n, ended, err = d.sendRequest(abandon, request, &v)
`, `		n = len(request.rows)
		go func() {
			var w Verdicts
			_, _, _ = d.sendRequest(abandon, request, &w)
			d.settler.submit(settlement{verdicts: w, done: func() {}})
		}()
`}},
			faults: failing, breaks: []string{"I5"},
		},
		{
			// Keys that differ in their last letter are one run.
			name: "two-keys-in-one-request",
			edits: []edit{
				{"internal/dispatch Dispatcher.splitByKey", `g := byKey[row.OrderingKey]`, `g := byKey[row.OrderingKey[:len(row.OrderingKey)-1]]`},
				{"internal/dispatch Dispatcher.splitByKey", `byKey[g.key] = g`, `byKey[g.key[:len(g.key)-1]] = g`},
			},
			breaks: []string{"I5"},
		},
		{
			name: "isolation-side-by-side",
			edits: []edit{{"internal/broker/pubsub Publisher.publishInOrder", `return dispatch.InOrder(ctx, msgs, first, func`, `_ = first
	return dispatch.Isolate(ctx, msgs, func`}},
			faults: "broker.away,broker.slow", breaks: []string{"I5"},
		},
		{
			name: "ordering-key-not-sent",
			edits: []edit{{"internal/broker/pubsub publishRequest", `		backing[i].OrderingKey = msgs[i].OrderingKey
`, ``}},
			breaks: []string{"I5"},
		},
		{
			name: "unfit-head-skipped",
			edits: []edit{{"internal/dispatch Dispatcher.sendRequest", `		v.add(d.bury(g))
		return len(g.rows), true, nil
`, `		v.add(d.bury(g))
		return len(g.rows), false, nil
`}},
			breaks: []string{"I5"},
		},
		{
			name:   "discard-does-not-release",
			edits:  []edit{{"migrations outbox_discard", `SET passed_at = now()`, `SET last_error = e.last_error`}},
			breaks: []string{"I5"},
		},
		{
			name:   "restore-does-not-hold",
			edits:  []edit{{"migrations outbox_restore", `SET passed_at = NULL`, `SET last_error = e.last_error`}},
			breaks: []string{"I5"},
		},
		{
			name:   "followers-charged",
			edits:  []edit{{"internal/dispatch expiredSQL", `WHERE e.id = locked.id AND locked.first`, `WHERE e.id = locked.id`}},
			faults: "publisher.kill,publisher.crash:publish.claimed", breaks: []string{"I11"},
		},
	}
}
