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

func auditPage(r *request) (*view, error) {
	rows, paged, err := list(r, auditFilter, func(p dlq.AuditParams, page outbox.Page, each func(dlq.AuditRun) error) (outbox.Paged, error) {
		p.Page = page
		return r.outbox.AuditRuns(r.Context(), p, each)
	})
	if err != nil {
		return nil, err
	}
	d, err := newList(r, "/audit", auditNames(), paged)
	d.Audit = rows
	return &view{Title: "Audit", Command: command("outboxctl audit", r.URL.Query(), auditNames()), template: "audit", Data: d}, err
}

const auditRunEvents = 100

// auditRunData is one run of the audit.
type auditRunData struct {
	Run *dlq.AuditRunResult
	// Undo: it can be taken back; else WhyNot is why it cannot.
	Undo   bool
	WhyNot string
	// Plan is what was run, if it had one. Events are the first of a run, More how many others.
	Plan   string
	Events []string
	More   int64
}

func auditRunPage(r *request) (*view, error) {
	run, err := r.outbox.AuditRun(r.Context(), r.PathValue("run"))
	if err != nil {
		return nil, err
	}
	d := auditRunData{Run: run, Undo: true}
	if err := run.CannotUndo(); err != nil {
		d.Undo, d.WhyNot = false, err.Error()
	}
	var detail struct{ PlanID string }
	_ = json.Unmarshal(run.Detail, &detail) // what has another form leads nowhere
	shown := min(len(run.EventIDs), auditRunEvents)
	d.Plan, d.Events, d.More = detail.PlanID, run.EventIDs[:shown], int64(len(run.EventIDs)-shown)
	return &view{Title: "Run", Command: "outboxctl audit show " + run.Run, template: "audit_run", Data: d}, nil
}
