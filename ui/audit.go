package ui

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// auditNames are the filters of the audit: the flags of outboxctl audit.
func auditNames() []string { return []string{"actor", "action", "event", "run", "since", "until"} }

func auditFilter(q url.Values, now time.Time) (p dlq.AuditParams, err error) {
	p = dlq.AuditParams{Actor: one(q, "actor", ""), Action: one(q, "action", ""), ID: one(q, "event", ""), RunID: one(q, "run", "")}
	if p.Since, p.Until, err = outbox.ParseSpan(one(q, "since", ""), one(q, "until", ""), now); err != nil {
		return p, fault.As(fault.Usage, err)
	}
	return p, nil
}

func listAudit(r *request) ([]dlq.AuditRow, outbox.Paged, error) {
	return list(r, auditNames(), auditFilter, func(p dlq.AuditParams, page outbox.Page, each func(dlq.AuditRow) error) (outbox.Paged, error) {
		p.Page = page
		return r.outbox.Audit(r.Context(), p, each)
	})
}

func auditPage(r *request) (*view, error) {
	q := r.URL.Query()
	if clean := tidy(q); clean != q.Encode() {
		return redirectTo("/audit", clean), nil
	}
	rows, paged, err := listAudit(r)
	if err != nil {
		return nil, err
	}
	d := newList(r, "/audit", auditNames()...)
	d.Audit = rows
	d.addNext("/audit", q, paged.Next)
	if d.Now, err = r.outbox.Now(r.Context()); err != nil {
		return nil, err
	}
	err = d.fix("/audit", q)
	return &view{Title: "Audit", Command: command("outboxctl audit", q, append(auditNames(), "limit", "cursor")...), template: "audit", Data: d}, err
}

// auditRef leads from a change to what it belongs to.
type auditRef struct{ Words, To string }

// auditRefs returns, of a change, which run it was a part of and, where it changed one event, which.
func auditRefs(row dlq.AuditRow) (refs []auditRef) {
	var found struct {
		PlanID string `json:"planId"`
		RunID  string `json:"runId"`
	}
	_ = json.Unmarshal(row.Detail, &found) // what has another form leads nowhere
	switch {
	case found.PlanID != "":
		refs = append(refs, auditRef{"the plan", "/plans/" + url.PathEscape(found.PlanID)})
	case found.RunID != "":
		refs = append(refs, auditRef{"all of this run", "/audit" + query([]any{"run", found.RunID})})
	}
	if row.EventID != nil {
		refs = append(refs, auditRef{"the event", "/search" + query([]any{"q", *row.EventID})})
	}
	return refs
}
