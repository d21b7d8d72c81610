package dlq

import (
	"context"
	"errors"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// PlanParams is how the plan of a change is made.
type PlanParams struct {
	// AtOnce: whoever makes the plan runs it now. Another one holds a digest of what each row carries, and what has changed
	// when it is run is left alone.
	AtOnce bool
	// MaxRows is the largest set; 0 has no limit.
	MaxRows int64
	// OnBegun is told the plan's id as soon as it exists; nil is not.
	OnBegun func(id string)
	// OnAdded is told how many rows were added, and which were left out because the change could not be made to them now; nil
	// is not.
	OnAdded func(n int64, leftOut []Outcome) error
}

// PlanChange makes the plan of a change without describing its set, which may be large.
func (o *Outbox) PlanChange(ctx context.Context, c ChangeParams, p PlanParams) (Plan, error) {
	set, err := o.aim(ctx, c)
	if err != nil {
		return Plan{}, err
	}
	return set.Plan(ctx, p)
}

// Plan writes the set to the database as a plan, which any process can run. One that comes to nothing is abandoned, and says
// why; when all of its rows were left out, it is returned with the error that tells so.
func (s *ChangeSet) Plan(ctx context.Context, p PlanParams) (Plan, error) {
	source, err := s.open()
	if err != nil {
		return Plan{}, err
	}
	planned := MakeParams{
		Action: s.Action, Author: s.params.Actor, Note: s.params.Note, Database: s.Database, Filter: s.filter, Source: source, AtOnce: p.AtOnce, OnBegun: p.OnBegun,
	}
	if s.params.Undo != nil {
		planned.Undoes = s.params.Undo.Run
	}
	var total int64
	planned.OnAdded = func(n int64, leftOut []Outcome) error {
		if total += n; p.MaxRows > 0 && total > p.MaxRows {
			return fault.Hint(fault.Preconditionf("the set has more than %s", words.Counted(p.MaxRows, "row")), "narrow the filter, or allow more with ui.max_plan_rows")
		}
		if p.OnAdded == nil {
			return nil
		}
		return p.OnAdded(n, leftOut)
	}
	plan, err := s.store.MakePlan(ctx, planned)
	switch {
	case errors.Is(err, ErrNothing) && len(plan.LeftOut) > 0:
		return plan, verdict(s.Action, s.filter != nil, plan.LeftOut, 0)
	case errors.Is(err, ErrNothing):
		return plan, fault.Preconditionf("nothing to %s", s.Action.Verb())
	case ctx.Err() != nil:
		return plan, ctx.Err()
	}
	return plan, err
}

// DryRunParams is how a change is looked at.
type DryRunParams struct {
	// Force replays what would fail again unchanged; without it the preview tells which that is.
	Force bool
	// OnOutcomes is told what would become of each row, chunk by chunk.
	OnOutcomes func([]Outcome) error
}

// Preview tells what would become of each row and changes nothing. Its error is the one that the change would have.
func (s *ChangeSet) Preview(ctx context.Context, p DryRunParams) (RunResult, error) {
	source, err := s.open()
	if err != nil {
		return RunResult{}, err
	}
	r, err := s.store.PreviewAll(ctx, PreviewParams{Action: s.Action, Source: source, Force: p.Force, OnOutcomes: p.OnOutcomes})
	switch {
	case r.Interrupted:
		return r, ctx.Err()
	case err != nil:
		return r, err
	case !p.Force && s.RefuseHopeless() != nil:
		return r, s.RefuseHopeless()
	}
	return r, verdict(s.Action, s.filter != nil, r.Counts, r.Counts[s.Action.Would()]+r.Counts[WouldFail])
}

// verdict is the error for rows of which some could not be changed, by what became of them; done is how many were.
func verdict(action Action, filtered bool, counts map[string]int64, done int64) error {
	total := RunResult{Counts: counts}.Total()
	bad := total - done
	if filtered {
		// Another operator was faster: what was wanted has happened.
		bad -= counts[AlreadyReplayed] + counts[AlreadyDiscarded] + counts[AlreadyOpen] + counts[AlreadyErased]
	}
	switch {
	case bad == 0:
		return nil
	case counts[NotFound] == total:
		return fault.NotFoundf("not found: %s", words.Counted(bad, "id"))
	case done > 0:
		return fault.Partialf("%s of %s could not be %s", words.Count(bad), words.Counted(total, action.Noun()), action.Success())
	default:
		return fault.Preconditionf("%s be %s", words.NoneOf(total, action.Noun()), action.Success())
	}
}

// Await waits until every event that was sent again is published or dead. Events that are neither in time, and those that
// died again, are an error of the kind Partial. When ctx ends, the wait is over too.
func (o *Outbox) Await(ctx context.Context, p AwaitParams) (Watched, error) {
	sum, err := o.store().Await(ctx, p)
	all := sum.Published + sum.Dead + sum.Failing + sum.Waiting
	switch {
	case err != nil:
		return sum, err
	case ctx.Err() != nil:
		return sum, ctx.Err()
	case sum.Published < all:
		return sum, fault.Partialf("not published: %s of %s", words.Count(all-sum.Published), words.Counted(all, "event"))
	}
	return sum, nil
}
