package ui

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// changeRequest is a request of a user who may change something.
type changeRequest struct {
	*http.Request
	h      *Handler
	outbox *dlq.Outbox
	who    Identity
}

// changed is what a change answers: the address of what came of it, for a page to go to, and its body in the API.
type changed struct {
	at     string
	status int
	body   any
	// page is shown at once, and a file is written, where nothing must stay in the browser's history.
	page  *view
	file  string
	write func(io.Writer) error
}

// A changeRoute is one way to change something: by a form of a page or by the API.
type changeRoute struct {
	method, path string
	do           func(*changeRequest) (changed, error)
}

// changeTable is every address that changes something, or needs the rights of an operator. None of them exists unless changes are allowed.
func changeTable() []changeRoute {
	return []changeRoute{
		{http.MethodPost, "/plans", planByForm},
		{http.MethodPost, "/plans/{id}/run", runByForm},
		{http.MethodPost, "/plans/{id}/stop", stopByForm},
		{http.MethodPost, "/plans/{id}/abandon", abandonByForm},
		{http.MethodPost, "/api/v1/plans", planByAPI},
		{http.MethodDelete, "/api/v1/plans/{id}", abandon},
		{http.MethodPost, "/api/v1/plans/{id}/run", runByAPI},
		{http.MethodPost, "/api/v1/plans/{id}/stop", stop},
	}
}

// changeRoutes is the addresses that exist here.
func (h *Handler) changeRoutes() (routes []changeRoute) {
	if h.cfg.AllowChanges {
		routes = slices.Concat(changeTable(), forgetTable(), pauseTable())
	}
	if h.cfg.Payloads == PayloadsReveal {
		routes = append(routes, revealTable()...)
	}
	return routes
}

// serveChange answers a request that changes something, if its sender may.
func (h *Handler) serveChange(w http.ResponseWriter, r *http.Request, do func(*changeRequest) (changed, error)) {
	who := whoOf(r)
	if who.Role != Operator {
		err := fault.Hint(fault.Refusedf("%s may look, not change", who.Name), "an operator may; /api/v1/me tells who you are")
		h.cfg.Log(r.URL.Path, err)
		h.fail(w, r, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	out, err := do(&changeRequest{Request: r, h: h, outbox: h.changes.outbox(), who: who})
	if err != nil {
		h.fail(w, r, err)
		return
	}
	switch {
	case out.page != nil:
		h.render(w, r, http.StatusOK, out.page)
		return
	case out.file != "":
		attach(w, out.file, "text/plain; charset=utf-8")
		if err := out.write(slowly{w}); err != nil {
			h.breakOff(r, err)
		}
		return
	case !isAPI(r):
		http.Redirect(w, r, h.cfg.BasePath+out.at, http.StatusSeeOther)
		return
	}
	if out.at != "" {
		w.Header().Set("Location", h.cfg.BasePath+"/api/v1"+out.at)
	}
	if out.body == nil {
		w.WriteHeader(out.status)
		return
	}
	doc, err := json.Marshal(out.body)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(out.status)
	_, _ = w.Write(append(safetext.JSON(doc), '\n')) // the caller has gone
}

func planByForm(r *changeRequest) (changed, error) {
	p, err := planForm(r.Request)
	if err != nil {
		return changed{}, err
	}
	return makePlan(r, p)
}

func planByAPI(r *changeRequest) (changed, error) {
	var p planRequest
	if err := readJSON(r.Request, &p); err != nil {
		return changed{}, err
	}
	return makePlan(r, p)
}

func makePlan(r *changeRequest, p planRequest) (changed, error) {
	now, err := r.outbox.Now(r.Context())
	if err != nil {
		return changed{}, err
	}
	params, err := p.params(now, r.who.Name)
	if err != nil {
		return changed{}, err
	}
	id, err := r.h.changes.plan(r.Context(), params)
	if err != nil {
		return changed{}, err
	}
	return r.plan(id)
}

// plan answers with a plan as it is now.
func (r *changeRequest) plan(id string) (changed, error) {
	plan, err := r.outbox.Plan(r.Context(), id)
	return changed{at: "/plans/" + plan.ID, status: http.StatusAccepted, body: plan}, err
}

func runByForm(r *changeRequest) (changed, error) {
	p, err := runForm(r.Request)
	if err != nil {
		return changed{}, err
	}
	return run(r, p)
}

func runByAPI(r *changeRequest) (changed, error) {
	var p runRequest
	if r.ContentLength != 0 {
		if err := readJSON(r.Request, &p); err != nil {
			return changed{}, err
		}
	}
	if err := p.check(); err != nil {
		return changed{}, err
	}
	return run(r, p)
}

// run starts a plan that is confirmed, and goes on with one that was confirmed when it was started. Asked twice with the same
// confirmation, it is the same run.
func run(r *changeRequest, p runRequest) (changed, error) {
	plan, err := r.outbox.Plan(r.Context(), r.PathValue("id"))
	if err != nil {
		return changed{}, err
	}
	said := dlq.Confirmation{Count: p.Confirm.Count, Database: p.Confirm.Database, Note: p.Note, Force: p.Force}
	confirms := said.Count != 0 || said.Database != ""
	if plan.StartedAt == nil || confirms {
		if err := said.Confirm(plan.Plan); err != nil {
			return changed{}, err
		}
	}
	if plan.StartedAt == nil || !confirms {
		err = r.begin(plan, p.Note, p.pace)
	}
	return r.begun(plan.ID, err)
}

func (r *changeRequest) begin(plan dlq.PlanDetail, note string, p pace) error {
	return r.h.changes.run(dlq.RunParams{
		ID: plan.ID, Runner: r.who.Name, Note: note, Rate: p.Rate, Watch: p.watchOf(plan.Action), Detail: r.detail(),
	})
}

// watchOf leaves out a watch over what sends no event.
func (p pace) watchOf(action dlq.Action) *dlq.Watch {
	if !action.Sends() {
		return nil
	}
	return p.watch()
}

// begun answers with a plan that is run. Of two requests at once, both of them began it.
func (r *changeRequest) begun(id string, err error) (changed, error) {
	out, readErr := r.plan(id)
	if err != nil && readErr == nil {
		if plan, _ := out.body.(dlq.PlanDetail); plan.State == dlq.PlanRunning {
			return out, nil
		}
	}
	return out, errors.Join(err, readErr)
}

// detail is what the audit keeps of a request besides the name of its sender.
func (r *changeRequest) detail() map[string]any {
	return map[string]any{"via": "ui", "auth": r.who.Auth, "remote": remoteOf(r.Request), "requestId": uuid.NewString()}
}

func stopByForm(r *changeRequest) (changed, error) {
	if _, err := readForm(r.Request); err != nil {
		return changed{}, err
	}
	return stop(r)
}

// stop asks a run to stop. One that has ended meanwhile needs nothing.
func stop(r *changeRequest) (changed, error) {
	err := r.outbox.StopPlan(r.Context(), r.PathValue("id"), r.who.Name)
	if err != nil {
		if plan, readErr := r.outbox.Plan(r.Context(), r.PathValue("id")); readErr != nil || plan.State != dlq.PlanDone {
			return changed{}, err
		}
	}
	return r.plan(r.PathValue("id"))
}

func abandonByForm(r *changeRequest) (changed, error) {
	if _, err := readForm(r.Request); err != nil {
		return changed{}, err
	}
	out, err := abandon(r)
	out.at = "/plans/" + r.PathValue("id")
	return out, err
}

func abandon(r *changeRequest) (changed, error) {
	err := r.outbox.AbandonPlan(r.Context(), r.PathValue("id"), r.who.Name)
	return changed{status: http.StatusNoContent}, err
}
