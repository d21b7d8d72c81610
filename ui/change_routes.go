package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// A changeRoute is one way to change something, by a form at its path and in the API. There it is a
// POST to the same path, unless api names another. It exists where it is open.
type changeRoute struct {
	path, api string
	open      bool
	do        func(*request) (answer, error)
}

func (h *Handler) changeRoutes() []changeRoute {
	changes, reveals := h.cfg.AllowChanges, h.cfg.Payloads == PayloadsReveal
	routes := []changeRoute{
		{path: "/plans", open: changes, do: asked(makePlan)},
		{path: "/plans/{id}/run", open: changes, do: asked(runPlan)},
		{path: "/plans/{id}/stop", open: changes, do: asked(stopPlan)},
		{path: "/plans/{id}/abandon", api: "DELETE /api/v1/plans/{id}", open: changes, do: asked(abandonPlan)},
		{path: "/audit/{run}/undo", open: changes, do: asked(undo)},
		{path: "/events/{id}/forget", open: changes, do: asked(forget)},
		{path: "/consumers/{consumer}/retry", open: changes, do: asked(retryConsumer)},
		{path: "/topics/{topic}/pause", open: changes, do: asked(pauseTopic)},
		{path: "/topics/{topic}/resume", open: changes, do: asked(resumeTopic)},
		{path: "/dead-letters/{id}/reveal", open: reveals, do: asked(reveal)},
		{path: "/events/{id}/reveal", open: reveals, do: asked(reveal)},
		{path: "/dead-letters/{id}/edit", open: changes && reveals, do: asked(edit)},
	}
	for i, r := range routes {
		routes[i].api = cmp.Or(r.api, "POST /api/v1"+r.path)
	}
	return routes
}

// asked reads what a request asks for, and does it.
func asked[P any](do func(*request, P) (answer, error)) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		var p P
		if err := r.decode(&p); err != nil {
			return answer{}, err
		}
		return do(r, p)
	}
}

type noted struct {
	Note string `json:"note"`
}

func (h *Handler) serveChange(w http.ResponseWriter, r *http.Request, do func(*request) (answer, error)) {
	who := whoOf(r)
	if who.Role != Operator {
		err := fault.Hint(fault.Refusedf("%s may look, not change", who.Name), "an operator may; /api/v1/me tells who you are")
		h.cfg.Log(r.URL.Path, err)
		h.fail(w, r, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	out, err := do(&request{Request: r, h: h, outbox: h.changes.outbox(), who: who})
	if err != nil {
		h.fail(w, r, err)
		return
	}
	switch {
	case out.file != "":
		attach(w, out.file, "text/plain; charset=utf-8")
		if _, err := io.WriteString(slowly{w}, out.text); err != nil {
			h.breakOff(r, err)
		}
		return
	case !isAPI(r) && out.page != nil:
		h.render(w, r, http.StatusOK, out.page)
		return
	case !isAPI(r):
		http.Redirect(w, r, h.cfg.BasePath+out.at, http.StatusSeeOther)
		return
	}
	if out.at != "" && out.body != nil {
		w.Header().Set("Location", h.cfg.BasePath+"/api/v1"+out.at)
	}
	if out.body == nil {
		w.WriteHeader(out.status)
		return
	}
	h.writeJSON(w, r, out.status, out.body)
}

func (h *Handler) writeJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	doc, err := json.Marshal(body)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(safetext.JSON(doc), '\n')) // the caller has gone
}

func makePlan(r *request, p planRequest) (answer, error) {
	now, err := r.outbox.Now(r.Context())
	if err != nil {
		return answer{}, err
	}
	params, err := p.params(now, r.who.Name)
	if err != nil {
		return answer{}, err
	}
	return r.planned(params)
}

// planned makes a plan and answers with it.
func (r *request) planned(p dlq.ChangeParams) (answer, error) {
	id, err := r.h.changes.plan(r.Context(), p)
	if err != nil {
		return answer{}, err
	}
	return r.plan(id)
}

// plan answers with a plan as it is now.
func (r *request) plan(id string) (answer, error) {
	plan, err := r.outbox.Plan(r.Context(), id)
	return answer{at: "/plans/" + plan.ID, status: http.StatusAccepted, body: plan}, err
}

// runPlan starts a plan that is confirmed, and resumes one that was confirmed when it was started.
// Asked twice with the same confirmation, it is the same run.
func runPlan(r *request, p runRequest) (answer, error) {
	said, err := p.confirmation()
	if err != nil {
		return answer{}, err
	}
	rate, watch, err := p.pace()
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
		err = r.h.changes.run(dlq.RunParams{ID: plan.ID, Runner: r.who.Name, Note: p.Note, Rate: rate, Watch: watch, Detail: r.detail()})
	}
	return r.begun(plan, err)
}

// begun answers with a plan that is run. Two requests at once both began it.
func (r *request) begun(before dlq.PlanDetail, err error) (answer, error) {
	out, readErr := r.plan(before.ID)
	if err != nil && readErr == nil {
		if plan, _ := out.body.(dlq.PlanDetail); plan.State == dlq.PlanRunning || before.StartedAt == nil && plan.State == dlq.PlanDone {
			err = nil
		}
	}
	// The second operator is told whose run it is.
	if plan, _ := out.body.(dlq.PlanDetail); err == nil && plan.Runner != r.who.Name && !isAPI(r.Request) {
		out.at += "?" + confirmedBefore + "=before"
	}
	return out, errors.Join(err, readErr)
}

// detail is what the audit keeps of a request besides the name of its sender.
func (r *request) detail() map[string]any {
	return map[string]any{"via": "ui", "auth": r.who.Auth, "remote": remoteOf(r.Request), "requestId": uuid.NewString()}
}

// stopPlan asks a run to stop. One that has ended meanwhile needs nothing.
func stopPlan(r *request, _ struct{}) (answer, error) {
	err := r.outbox.StopPlan(r.Context(), r.PathValue("id"), r.who.Name)
	if err != nil {
		if plan, readErr := r.outbox.Plan(r.Context(), r.PathValue("id")); readErr != nil || plan.State != dlq.PlanDone {
			return answer{}, err
		}
	}
	return r.plan(r.PathValue("id"))
}

func abandonPlan(r *request, _ struct{}) (answer, error) {
	err := r.outbox.AbandonPlan(r.Context(), r.PathValue("id"), r.who.Name)
	return answer{at: "/plans/" + r.PathValue("id"), status: http.StatusNoContent}, err
}

// undo takes a run back: a discard or a restore by a plan, which is confirmed as any other, a pause
// or the end of one at once.
func undo(r *request, p noted) (answer, error) {
	run, err := r.outbox.AuditRun(r.Context(), r.PathValue("run"))
	if err != nil {
		return answer{}, err
	}
	if err := run.CannotUndo(); err != nil {
		return answer{}, err
	}
	note := cmp.Or(strings.TrimSpace(p.Note), "undo of "+run.Run)
	if action := run.UndoAction(); action != "" {
		return r.planned(dlq.ChangeParams{Action: action, Undo: run, Actor: r.who.Name, Note: note})
	}
	return r.paused(r.outbox.UndoPause(r.Context(), dlq.UndoPauseParams{Run: run, Actor: r.who.Name, Note: note, Detail: r.detail()}))
}
