package operate

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// failuresShown is how many rows that were not changed a run lists.
const failuresShown = 100

// Store freezes the set in the database, for a run that any process can begin, watch and resume. onFrozen is told how
// many rows there are so far.
func (s *ChangeSet) Store(ctx context.Context, onFrozen func(n int64)) (dlq.Frozen, error) {
	source, err := s.open()
	if err != nil {
		return dlq.Frozen{}, err
	}
	id, err := s.store.FreezePlan(ctx, dlq.FrozenParams{
		Action: s.Action, Author: s.params.Actor, Reason: s.params.Note, Database: s.Database, Filter: s.filter, Source: source, OnFrozen: onFrozen,
	})
	if err != nil {
		return dlq.Frozen{}, StoreError(err)
	}
	plan, err := s.store.Frozen(ctx, id)
	if err != nil {
		return dlq.Frozen{}, StoreError(err)
	}
	if plan.Total == 0 {
		return plan, errors.Join(fault.Preconditionf("freeze: nothing to %s", s.Verb()), StoreError(s.store.AbandonPlan(ctx, id, s.params.Actor)))
	}
	return plan, nil
}

// ListPlansParams selects plans.
type ListPlansParams struct {
	// Started leaves out plans that were not started: what remains are runs.
	Started bool
	Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the cursor canonical.
func (p *ListPlansParams) Check() error {
	err := p.checkCursor()
	if err == nil && p.Cursor != "" && len(p.Cursor) < idLength {
		err = fault.Usagef("the cursor %s is the beginning of an id: give the whole id of the plan", p.Cursor)
	}
	return err
}

// ListPlans passes the plans in the database to each, newest first.
func (o *Outbox) ListPlans(ctx context.Context, p ListPlansParams, each func(dlq.Frozen) error) (Paged, error) {
	if err := p.Check(); err != nil {
		return Paged{}, err
	}
	after := p.Cursor
	last, more, err := readPages(p.Limit, each, func(n int) ([]dlq.Frozen, error) {
		plans, err := o.store().FrozenPlans(ctx, after, p.Started, n)
		if len(plans) > 0 {
			after = plans[len(plans)-1].ID
		}
		return plans, err
	})
	if err != nil || !more {
		return Paged{}, StoreError(err)
	}
	return Paged{Next: last.ID}, nil
}

// PlanDetail is a plan, and the first rows that were not changed as planned.
type PlanDetail struct {
	dlq.Frozen

	Failed []dlq.Outcome `json:"failed"`
}

// Plan describes a plan and its run.
func (o *Outbox) Plan(ctx context.Context, id string) (PlanDetail, error) {
	plan, err := o.plan(ctx, id)
	if err != nil {
		return PlanDetail{}, err
	}
	failed, err := o.store().FrozenFailures(ctx, plan.ID, failuresShown)
	if failed == nil {
		failed = []dlq.Outcome{}
	}
	return PlanDetail{Frozen: plan, Failed: failed}, StoreError(err)
}

func (o *Outbox) plan(ctx context.Context, text string) (dlq.Frozen, error) {
	id, err := ParseID(text)
	if err != nil {
		return dlq.Frozen{}, err
	}
	if len(id) < idLength {
		return dlq.Frozen{}, fault.Usagef("%s is the beginning of an id: give the whole id of the plan", id)
	}
	plan, err := o.store().Frozen(ctx, id)
	if errors.Is(err, outbox.ErrNotFound) {
		return plan, fault.Hint(fault.NotFoundf("no plan %s", id), "outboxctl run list --all lists the plans; dlq audit --run finds a run that had none")
	}
	return plan, StoreError(err)
}

// AbandonPlan gives up a plan that was not started.
func (o *Outbox) AbandonPlan(ctx context.Context, id, actor string) error {
	plan, err := o.plan(ctx, id)
	if err != nil {
		return err
	}
	return planError(o.store().AbandonPlan(ctx, plan.ID, actor))
}

// RunPlanParams says how a plan is run.
type RunPlanParams struct {
	ID string
	// Runner goes to the audit rows, beside the plan's author.
	Runner string
	// Detail goes to the audit rows too.
	Detail map[string]any
	// Rate limits the run to so many rows per second; 0 does not.
	Rate float64
	// Watch makes the run go in growing steps and stop when replayed events die again; nil does not.
	Watch *dlq.Watch
	// OnOutcomes is told what became of each step.
	OnOutcomes func([]dlq.Outcome) error
}

// RunPlan does what is left of a plan. It can be begun by one process and resumed by another; two at once are refused.
func (o *Outbox) RunPlan(ctx context.Context, p RunPlanParams) (dlq.FrozenRunResult, error) {
	plan, err := o.plan(ctx, p.ID)
	if err != nil {
		return dlq.FrozenRunResult{}, err
	}
	here, err := o.store().Identity(ctx)
	if err != nil {
		return dlq.FrozenRunResult{}, StoreError(err)
	}
	if !plan.Database.Same(here) {
		return dlq.FrozenRunResult{}, fault.Preconditionf("plan %s was made on %s and came here with a copy of it: this is %s", plan.ID, plan.Database, here)
	}
	if p.Watch != nil && !slices.Contains([]dlq.Action{dlq.Replay, dlq.Republish}, plan.Action) {
		return dlq.FrozenRunResult{}, fault.Usagef("nothing of a %s can be watched: it sends no event", verb(plan.Action))
	}
	result, err := o.store().RunPlan(ctx, dlq.FrozenRunParams{
		Plan: plan.ID, Action: plan.Action, Runner: p.Runner, Detail: p.Detail, Rate: p.Rate, Watch: p.Watch, OnOutcomes: p.OnOutcomes,
	})
	switch {
	case err != nil && result.Unfinished:
		return result, fault.Partialf("stopped after %s: %w", Counted(result.Total(), "row"), planError(err))
	case err != nil:
		return result, planError(err)
	case result.Interrupted:
		return result, ctx.Err()
	case result.Stopped != "":
		return result, fault.Partialf("stopped by itself: %s", result.Stopped)
	case result.State != dlq.RunDone:
		return result, fault.Partialf("stopped on request after %s", Counted(result.Total(), "row"))
	}
	return result, nil
}

// StopRun asks the runner of a plan to stop after the rows it is at.
func (o *Outbox) StopRun(ctx context.Context, id, actor string) error {
	plan, err := o.plan(ctx, id)
	if err != nil {
		return err
	}
	return planError(o.store().StopRun(ctx, plan.ID, actor))
}

// planError gives what the functions of plans refuse its kind.
func planError(err error) error {
	var pg *pgconn.PgError
	switch {
	case !errors.As(err, &pg):
		return err
	case dlq.PlanMissing(err):
		return fault.NotFoundf("%s", pg.Message)
	case dlq.PlanRefused(err):
		return fault.Hint(fault.Preconditionf("%s", pg.Message), "outboxctl run list --all shows what state it is in")
	default:
		return StoreError(err)
	}
}
