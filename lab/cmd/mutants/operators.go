package main

// operatorMutants are bugs where two features meet that operators use: the model of lab/model finds them. All were there once.
func operatorMutants() []mutant {
	finds := []string{model}
	return []mutant{
		{
			// One type on two topics: an outage or a pause of one was taken for the other's.
			name: "topics-by-type-alone",
			edits: []edit{
				{"internal/outbox Names.where", `wanted(e) && e.Namespace == AllNamespaces`, `wanted(e)`},
				{"internal/outbox Names.where", `e.Namespace != AllNamespaces && wanted(e) != in.but`, `false && wanted(e) != in.but`},
			},
			breaks: finds,
		},
		{
			name:   "pause-by-the-stored-name",
			edits:  []edit{{"internal/outbox Names.Called", `return called[[2]string{e.Namespace, e.Type}]`, `return false`}},
			breaks: finds,
		},
		{
			name:   "dedupe-by-the-stored-name",
			edits:  []edit{{"migrations outbox_emit_many", `AND (r.former IS NULL OR`, `AND (true OR r.former IS NULL OR`}},
			breaks: finds,
		},
		{
			name:   "edit-by-the-stored-name",
			edits:  []edit{{"migrations outbox_correct", `coalesce(present, letter.event_type::text)`, `letter.event_type::text`}},
			breaks: finds,
		},
		{
			// The newest dead letter of an event is not always the one that the run has changed.
			name:   "undo-by-event",
			edits:  []edit{{"cmd runAuditUndo", `opts.undo = r`, `opts.ids = r.EventIDs`}},
			breaks: finds,
		},
		{
			name:   "undo-of-what-others-changed",
			edits:  []edit{{"internal/dlq runSource.Next", `, AuditID: s.last}`, `}`}},
			breaks: finds,
		},
		{
			name: "undo-lifts-anothers-pause",
			edits: []edit{{"migrations outbox_pause_undone",
				`p.audit_id IS DISTINCT FROM coalesce((a.detail ->> 'left')::bigint, a.id)`, `false`}},
			breaks: finds,
		},
		{
			// Cleanup removes the audit row, and the correction with it.
			name: "correction-known-by-its-audit-row",
			edits: []edit{{"migrations outbox_restore", `AND d.corrected_by IS NULL`,
				`AND NOT EXISTS (SELECT FROM @schema@.outbox_audit AS a WHERE a.id = d.audit_id AND a.action = 'dlq.edit')`}},
			breaks: finds,
		},
	}
}
