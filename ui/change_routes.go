package ui

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// sendWithin is how long an operator may take to fetch a file.
const sendWithin = 30 * time.Second

// A changeRoute is a form that changes or reveals something. It exists where it is open.
type changeRoute struct {
	path string
	open bool
	// takes are the fields that it may have; one that ends in a dot stands for all that begin with it.
	takes []string
	do    func(*request) (answer, error)
}

func (h *Handler) changeRoutes() []changeRoute {
	changes, reveals := h.cfg.AllowChanges, h.cfg.Payloads == PayloadsReveal
	confirmation := []string{"confirm.count", "confirm.database", "note", "force", "rate", "ramp", "abortIfDead"}
	return []changeRoute{
		{path: "/plans", open: changes, do: makePlan, takes: []string{"action", "ids", "filter.", "note"}},
		{path: "/plans/{id}/run", open: changes, do: runPlan, takes: confirmation},
		{path: "/plans/{id}/stop", open: changes, do: stopPlan},
		{path: "/plans/{id}/abandon", open: changes, do: abandonPlan},
		{path: "/audit/{run}/undo", open: changes, do: undo, takes: []string{"note"}},
		{path: "/events/{id}/forget", open: changes, do: forget, takes: []string{"consumer", "confirm", "note"}},
		{path: "/consumers/{consumer}/retry", open: changes, do: retryConsumer, takes: []string{"note"}},
		{path: "/topics/{topic}/pause", open: changes, do: pauseTopic, takes: []string{"note", "for"}},
		{path: "/topics/{topic}/resume", open: changes, do: resumeTopic, takes: []string{"note"}},
		{path: "/dead-letters/{id}/reveal", open: reveals, do: reveal, takes: []string{"note", "file"}},
		{path: "/events/{id}/reveal", open: reveals, do: reveal, takes: []string{"note", "file"}},
		{path: "/dead-letters/{id}/edit", open: changes && reveals, do: edit, takes: []string{"note", "data", "send"}},
	}
}

// answer is what a form leads to: the address at, or a page or file of its own, which no address in
// the browser's history shows.
type answer struct {
	at         string
	page       *view
	file, text string
}

func (h *Handler) serveChange(w http.ResponseWriter, r *http.Request, to changeRoute) {
	who := whoOf(r)
	if who.Role != Operator {
		err := fault.Hint(fault.Refusedf("%s may look, not change", who.Name), "an operator may")
		h.cfg.Log(r.URL.Path, err)
		h.fail(w, r, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	err := readForm(r, to.takes)
	var out answer
	if err == nil {
		out, err = to.do(&request{Request: r, h: h, outbox: h.changes.outbox(), who: who})
	}
	switch {
	case err != nil:
		h.fail(w, r, err)
	case out.file != "":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="`+out.file+`"`)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendWithin)) // a writer of a test has no limit
		if _, err := io.WriteString(w, out.text); err != nil {
			h.cfg.Log(r.URL.Path, err)
			panic(http.ErrAbortHandler) // the browser sees that the file is not whole
		}
	case out.page != nil:
		h.render(w, r, http.StatusOK, out.page)
	default:
		http.Redirect(w, r, h.cfg.BasePath+out.at, http.StatusSeeOther)
	}
}

func makePlan(r *request) (answer, error) {
	now, err := r.outbox.Now(r.Context())
	if err != nil {
		return answer{}, err
	}
	params, err := r.chosen(now)
	if err != nil {
		return answer{}, err
	}
	return r.planned(params)
}

// planned makes a plan and leads to it.
func (r *request) planned(p dlq.ChangeParams) (answer, error) {
	id, err := r.h.changes.plan(r.Context(), p)
	return answer{at: "/plans/" + id}, err
}

// runPlan starts a plan that is confirmed, and resumes one that was confirmed when it was started.
// Asked twice with the same confirmation, it is the same run.
func runPlan(r *request) (answer, error) {
	said, err := r.confirmation()
	if err != nil {
		return answer{}, err
	}
	rate, watch, err := r.pace()
	if err != nil {
		return answer{}, err
	}
	plan, err := r.outbox.Plan(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	confirms := said.Count != 0 || said.Database != ""
	if plan.StartedAt == nil || confirms {
		if err := said.Confirm(plan.Plan); err != nil {
			return answer{}, err
		}
	}
	if !plan.Action.Sends() { // there is nothing to watch
		watch = nil
	}
	if plan.StartedAt == nil || !confirms {
		err = r.h.changes.run(dlq.RunParams{ID: plan.ID, Runner: r.who.Name, Note: said.Note, Rate: rate, Watch: watch, Detail: r.detail()})
	}
	return r.begun(plan, err)
}

// begun leads to a plan that is run. Two requests at once both began it.
func (r *request) begun(before dlq.PlanDetail, err error) (answer, error) {
	plan, readErr := r.outbox.Plan(r.Context(), before.ID)
	if readErr == nil && (plan.State == dlq.PlanRunning || before.StartedAt == nil && plan.State == dlq.PlanDone) {
		err = nil
	}
	out := answer{at: "/plans/" + before.ID}
	if plan.Runner != r.who.Name { // the second operator is told whose run it is
		out.at += "?" + confirmedBefore + "=before"
	}
	return out, errors.Join(err, readErr)
}

// detail is what the audit keeps of a request besides the name of its sender.
func (r *request) detail() map[string]any {
	return map[string]any{"via": "ui", "auth": r.who.Auth, "remote": remoteOf(r.Request), "requestId": uuid.NewString()}
}

// stopPlan asks a run to stop. One that has ended meanwhile needs nothing.
func stopPlan(r *request) (answer, error) {
	id := r.PathValue("id")
	err := r.outbox.StopPlan(r.Context(), id, r.who.Name)
	if err != nil {
		if plan, readErr := r.outbox.Plan(r.Context(), id); readErr == nil && plan.State == dlq.PlanDone {
			err = nil
		}
	}
	return answer{at: "/plans/" + id}, err
}

func abandonPlan(r *request) (answer, error) {
	id := r.PathValue("id")
	return answer{at: "/plans/" + id}, r.outbox.AbandonPlan(r.Context(), id, r.who.Name)
}

// undo takes a run back: a discard or a restore by a plan, which is confirmed as any other, a pause
// or the end of one at once.
func undo(r *request) (answer, error) {
	run, err := r.outbox.AuditRun(r.Context(), r.PathValue("run"))
	if err != nil {
		return answer{}, err
	}
	if err := run.CannotUndo(); err != nil {
		return answer{}, err
	}
	note := cmp.Or(r.field("note"), "undo of "+run.Run)
	if action := run.UndoAction(); action != "" {
		return r.planned(dlq.ChangeParams{Action: action, Undo: run, Actor: r.who.Name, Note: note})
	}
	_, err = r.outbox.UndoPause(r.Context(), dlq.UndoPauseParams{Run: run, Actor: r.who.Name, Note: note, Detail: r.detail()})
	return r.paused(err)
}
