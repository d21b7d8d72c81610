package main

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
		planted("undo-of-what-others-changed", "", model, "internal/dlq runSource.Next",
			`, AuditID: s.last}`, `}`),
		planted("undo-lifts-anothers-pause", "", model, "migrations outbox_pause_undone",
			`p.audit_id IS DISTINCT FROM coalesce((a.detail ->> 'left')::bigint, a.id)`, `false`),
		// Cleanup removes the audit row, and the correction with it.
		planted("correction-known-by-its-audit-row", "", model, "migrations outbox_restore",
			`AND d.corrected_by IS NULL`, `AND NOT EXISTS (SELECT FROM @schema@.outbox_audit AS a WHERE a.id = d.audit_id AND a.action = 'dlq.edit')`,
			"migrations outbox_plan_add", `d.corrected_by IS NOT NULL AS corrected`,
			`EXISTS (SELECT FROM @schema@.outbox_audit AS a WHERE a.id = d.audit_id AND a.action = 'dlq.edit') AS corrected`),
	}
}
