package dlq

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// failuresShown is how many rows that were not changed a plan lists.
const failuresShown = 100

// ListPlansParams selects plans.
type ListPlansParams struct {
	// Running leaves out plans that are not being run.
	Running bool
	outbox.Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the cursor
// canonical.
func (p *ListPlansParams) Check() error {
	err := p.CheckCursor()
	if err == nil && p.Cursor != "" && len(p.Cursor) < outbox.IDLength {
		err = fault.Usagef("the cursor %s is the beginning of an id: give the whole id of the plan", p.Cursor)
	}
	return err
}

// ListPlans passes the plans in the database to each, newest first.
func (o *Outbox) ListPlans(ctx context.Context, p ListPlansParams, each func(Plan) error) (outbox.Paged, error) {
	if err := p.Check(); err != nil {
		return outbox.Paged{}, err
	}
	after := p.Cursor
	last, more, err := outbox.ReadPages(p.Limit, each, func(n int) ([]Plan, error) {
		plans, err := outbox.Rows[Plan](ctx, o.DB, "list plans", selectPlans, after, p.Running, n)
		if len(plans) > 0 {
			after = plans[len(plans)-1].ID
		}
		return plans, err
	})
	if err != nil || !more {
		return outbox.Paged{}, err
	}
	return outbox.Paged{Next: last.ID}, nil
}

// PlanDetail is a plan, and the first rows that were not changed as planned.
type PlanDetail struct {
	Plan

	Failed []Outcome `json:"failed"`
}

// Plan describes a plan and its run.
func (o *Outbox) Plan(ctx context.Context, id string) (PlanDetail, error) {
	plan, err := o.FindPlan(ctx, id)
	if err != nil {
		return PlanDetail{}, err
	}
	failed, err := outbox.Rows[Outcome](ctx, o.DB, "list what was not changed", selectPlanFailures, plan.ID, failuresShown)
	return PlanDetail{Plan: plan, Failed: failed}, err
}

// FindPlan finds a plan by its id or the beginning of it.
func (o *Outbox) FindPlan(ctx context.Context, text string) (Plan, error) {
	id, err := outbox.ParseID(text)
	if err != nil {
		return Plan{}, fault.Hint(err, "outboxctl plan list lists the plans")
	}
	if len(id) < outbox.IDLength {
		none := fault.Hint(fault.NotFoundf("no plan has an id that begins with %s", id), "outboxctl plan list lists the plans")
		if id, err = o.CompleteID(ctx, id, planCandidatesQuery, none); err != nil {
			return Plan{}, err
		}
	}
	plan, err := o.readPlan(ctx, id)
	if errors.Is(err, outbox.ErrNotFound) {
		return plan, fault.Hint(fault.NotFoundf("no plan %s", id), "outboxctl plan list lists the plans")
	}
	return plan, err
}

// AbandonPlan gives up a plan that was not started.
func (o *Outbox) AbandonPlan(ctx context.Context, id, actor string) error {
	plan, err := o.FindPlan(ctx, id)
	if err != nil {
		return err
	}
	return planError(o.change(ctx, callPlanAbandon, []any{plan.ID, actor, ""}))
}

// RunPlan does what is left of a plan. It can be begun by one process and gone on with by another;
// two at once are refused.
func (o *Outbox) RunPlan(ctx context.Context, p RunParams) (RunResult, error) {
	plan, err := o.FindPlan(ctx, p.ID)
	if err != nil {
		return RunResult{}, err
	}
	here, err := o.Identity(ctx)
	if err != nil {
		return RunResult{}, err
	}
	if !plan.Database.Same(here) {
		return RunResult{}, fault.Preconditionf("plan %s was made on %s and came here with a copy of it: this is %s", plan.ID, plan.Database, here)
	}
	if p.Watch != nil && !plan.Action.Sends() {
		return RunResult{}, fault.Usagef("nothing of a %s can be watched: it sends no event", plan.Action.Verb())
	}
	result, err := o.run(ctx, plan, p)
	switch {
	case err != nil && result.Unfinished:
		return result, fault.Partialf("stopped after %s: %w", words.Counted(result.Total(), "row"), planError(err))
	case err != nil:
		return result, planError(err)
	case result.Interrupted:
		return result, ctx.Err()
	case result.Stopped != "":
		return result, fault.Partialf("stopped by itself: %s", result.Stopped)
	case result.State != PlanDone:
		return result, fault.Partialf("stopped on request after %s", words.Counted(result.Total(), "row"))
	}
	return result, verdict(plan.Action, plan.Filtered(), result.Counts, result.Counts[plan.Action.Success()])
}

// StopPlan asks the runner of a plan to stop after the rows it is at.
func (o *Outbox) StopPlan(ctx context.Context, id, actor string) error {
	plan, err := o.FindPlan(ctx, id)
	if err != nil {
		return err
	}
	return planError(o.change(ctx, callPlanStop, []any{plan.ID, actor}))
}

// planError gives what the functions of plans refuse its kind.
func planError(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case codePlanMissing:
			return fault.NotFoundf("%s", pg.Message)
		case codePlanState, codePlanLeaseOut:
			return fault.Hint(fault.Preconditionf("%s", pg.Message), "outboxctl plan list shows what state it is in")
		}
	}
	return err
}

const planCandidatesQuery = `
SELECT id::text, action || ' by ' || author AS what FROM outbox_plans WHERE id BETWEEN $1::text::uuid AND $2::text::uuid ORDER BY id LIMIT $3`
