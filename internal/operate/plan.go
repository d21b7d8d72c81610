package operate

import (
	"context"
	"errors"
	"io"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// failuresShown is how many rows that were not changed a run lists.
const failuresShown = 100

// Store freezes the set in the database, for a run that any process can begin, watch and resume. onFrozen is told how
// many rows there are so far.
func (s *ChangeSet) Store(ctx context.Context, onFrozen func(n int64)) (dlq.Frozen, error) {
	f, err := s.beginPlan(ctx, func(n int64) error { onFrozen(n); return nil })
	if err != nil {
		return dlq.Frozen{}, err
	}
	return f.finish(ctx, s.OrderEffects)
}

// Freezing is a plan that exists already, while its set is being written.
type Freezing struct {
	ID string

	set    *ChangeSet
	frozen *dlq.Freezing
}

// BeginPlanParams is a change to be frozen.
type BeginPlanParams struct {
	ChangeParams
	// MaxRows is the largest set; 0 has no limit.
	MaxRows int64
}

// BeginPlan creates the plan of a change without looking at its set, which may be large. Finish freezes the set.
func (o *Outbox) BeginPlan(ctx context.Context, p BeginPlanParams) (*Freezing, error) {
	set, err := o.aim(ctx, p.ChangeParams)
	if err != nil {
		return nil, fault.Database(err)
	}
	return set.beginPlan(ctx, func(n int64) error {
		if p.MaxRows > 0 && n > p.MaxRows {
			return fault.Hint(fault.Preconditionf("the set has more than %s", words.Counted(p.MaxRows, "row")), "narrow the filter, or allow more with ui.max_plan_rows")
		}
		return nil
	})
}

func (s *ChangeSet) beginPlan(ctx context.Context, onFrozen func(int64) error) (*Freezing, error) {
	source, err := s.open()
	if err != nil {
		return nil, fault.Database(err)
	}
	frozen, err := s.store.BeginPlan(ctx, dlq.FrozenParams{
		Action: s.Action, Author: s.params.Actor, Note: s.params.Note, Database: s.Database, Filter: s.filter, Source: source, OnFrozen: onFrozen,
	})
	if err != nil {
		return nil, fault.Database(err)
	}
	return &Freezing{ID: frozen.ID, set: s, frozen: frozen}, nil
}

// Finish writes the set to the plan. A plan that comes to nothing is abandoned, and says why.
func (f *Freezing) Finish(ctx context.Context) (dlq.Frozen, error) {
	if err := f.set.addOrderEffects(ctx); err != nil {
		return dlq.Frozen{}, errors.Join(fault.Database(err), f.abandon(ctx, err.Error()))
	}
	return f.finish(ctx, f.set.OrderEffects)
}

func (f *Freezing) finish(ctx context.Context, effects dlq.OrderEffects) (dlq.Frozen, error) {
	if err := f.frozen.Fill(ctx, effects); err != nil {
		return dlq.Frozen{}, fault.Database(err)
	}
	plan, err := f.set.store.Frozen(ctx, f.ID)
	if err != nil || plan.Total > 0 {
		return plan, fault.Database(err)
	}
	nothing := fault.Preconditionf("freeze: nothing to %s", f.set.Action.Verb())
	return plan, errors.Join(nothing, f.abandon(ctx, nothing.Error()))
}

func (f *Freezing) abandon(ctx context.Context, why string) error {
	return fault.Database(f.set.store.AbandonPlan(context.WithoutCancel(ctx), f.ID, f.set.params.Actor, why))
}

// ListPlansParams selects plans.
type ListPlansParams struct {
	// Started leaves out plans that were not started: what remains are runs.
	Started bool
	outbox.Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the cursor canonical.
func (p *ListPlansParams) Check() error {
	err := p.CheckCursor()
	if err == nil && p.Cursor != "" && len(p.Cursor) < outbox.IDLength {
		err = fault.Usagef("the cursor %s is the beginning of an id: give the whole id of the plan", p.Cursor)
	}
	return err
}

// ListPlans passes the plans in the database to each, newest first.
func (o *Outbox) ListPlans(ctx context.Context, p ListPlansParams, each func(dlq.Frozen) error) (outbox.Paged, error) {
	if err := p.Check(); err != nil {
		return outbox.Paged{}, err
	}
	after := p.Cursor
	last, more, err := outbox.ReadPages(p.Limit, each, func(n int) ([]dlq.Frozen, error) {
		plans, err := o.store().FrozenPlans(ctx, after, p.Started, n)
		if len(plans) > 0 {
			after = plans[len(plans)-1].ID
		}
		return plans, err
	})
	if err != nil || !more {
		return outbox.Paged{}, fault.Database(err)
	}
	return outbox.Paged{Next: last.ID}, nil
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
	return PlanDetail{Frozen: plan, Failed: failed}, fault.Database(err)
}

// plan finds a plan by its id or the beginning of it.
func (o *Outbox) plan(ctx context.Context, text string) (dlq.Frozen, error) {
	id, err := outbox.ParseID(text)
	if err != nil {
		return dlq.Frozen{}, fault.Hint(err, "outboxctl run list --all lists the plans")
	}
	if len(id) < outbox.IDLength {
		none := fault.Hint(fault.NotFoundf("no plan has an id that begins with %s", id), "outboxctl run list --all lists the plans")
		if id, err = o.CompleteID(ctx, id, planCandidatesQuery, none); err != nil {
			return dlq.Frozen{}, err
		}
	}
	plan, err := o.store().Frozen(ctx, id)
	if errors.Is(err, outbox.ErrNotFound) {
		return plan, fault.Hint(fault.NotFoundf("no plan %s", id), "outboxctl run list --all lists the plans; dlq audit --run finds a run that had none")
	}
	return plan, fault.Database(err)
}

// WritePlanFile writes a plan as the file that --apply takes. An operator may: its digests tell equal payloads from others.
func (o *Outbox) WritePlanFile(ctx context.Context, w io.Writer, plan dlq.Frozen) error {
	return fault.Database(o.store().WriteFrozen(ctx, w, plan))
}

// AbandonPlan gives up a plan that was not started.
func (o *Outbox) AbandonPlan(ctx context.Context, id, actor string) error {
	plan, err := o.plan(ctx, id)
	if err != nil {
		return err
	}
	return planError(o.store().AbandonPlan(ctx, plan.ID, actor, ""))
}

// RunPlanParams describes how a plan is run.
type RunPlanParams struct {
	ID string
	// Runner goes to the audit rows, beside the plan's author.
	Runner string
	// Note is why it is run, when the plan does not say.
	Note string
	// Detail goes to the audit rows too.
	Detail map[string]any
	// Rate limits the run to so many rows per second; 0 does not.
	Rate float64
	// Watch makes the run go in growing steps and stop when replayed events die again; nil does not.
	Watch *dlq.Watch
	// OnBegun is told that the run has begun and no other can; nil is not.
	OnBegun func()
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
		return dlq.FrozenRunResult{}, fault.Database(err)
	}
	if !plan.Database.Same(here) {
		return dlq.FrozenRunResult{}, fault.Preconditionf("plan %s was made on %s and came here with a copy of it: this is %s", plan.ID, plan.Database, here)
	}
	if p.Watch != nil && !plan.Action.Sends() {
		return dlq.FrozenRunResult{}, fault.Usagef("nothing of a %s can be watched: it sends no event", plan.Action.Verb())
	}
	result, err := o.store().RunPlan(ctx, dlq.FrozenRunParams{
		Plan: plan.ID, Action: plan.Action, Runner: p.Runner, Note: p.Note, Detail: p.Detail, Rate: p.Rate, Watch: p.Watch, OnBegun: p.OnBegun,
		OnOutcomes: p.OnOutcomes,
	})
	switch {
	case err != nil && result.Unfinished:
		return result, fault.Partialf("stopped after %s: %w", words.Counted(result.Total(), "row"), planError(err))
	case err != nil:
		return result, planError(err)
	case result.Interrupted:
		return result, ctx.Err()
	case result.Stopped != "":
		return result, fault.Partialf("stopped by itself: %s", result.Stopped)
	case result.State != dlq.RunDone:
		return result, fault.Partialf("stopped on request after %s", words.Counted(result.Total(), "row"))
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
		return fault.Database(err)
	}
}

const planCandidatesQuery = `
SELECT id::text, action || ' by ' || author FROM outbox_plans WHERE id BETWEEN $1::text::uuid AND $2::text::uuid ORDER BY id LIMIT $3`
