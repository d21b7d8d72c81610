package operate

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// Freeze writes the set as a plan: which rows they are and a digest of what they carry. Rows that the change could not be
// made to now are left out and counted by outcome.
func (s *ChangeSet) Freeze(ctx context.Context, w io.Writer) (frozen int64, leftOut map[string]int64, err error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return 0, nil, fault.Database(err)
	}
	source, err := s.open()
	if err != nil {
		return 0, nil, err
	}
	frozen, leftOut, err = s.store.WritePlan(ctx, w, dlq.PlanHeader{
		Action: s.Action, CreatedAt: now.UTC(), Author: s.params.Actor, Note: s.params.Note, Database: s.Database, Filter: s.filter,
	}, source)
	switch {
	case err != nil:
		return frozen, leftOut, fault.Database(err)
	case frozen == 0 && leftOut[dlq.NotFound] > 0:
		return 0, leftOut, fault.NotFoundf("write plan: none of the ids was found")
	case frozen == 0:
		return 0, leftOut, fault.Preconditionf("write plan: nothing to %s", s.Action.Verb())
	}
	return frozen, leftOut, nil
}

// ApplyParams is how a change is made.
type ApplyParams struct {
	// RunID is in every audit row of the run; empty makes one.
	RunID string
	// DryRun reports what would become of each row and changes nothing.
	DryRun bool
	// Force replays what would die again as it is stored; without it a dry run tells which that is.
	Force bool
	// Rate limits the run to so many rows per second; 0 does not.
	Rate float64
	// Watch makes the run go in growing steps and stop when replayed events die again; nil does not.
	Watch *dlq.Watch
	// OnOutcomes is told what became of each row, chunk by chunk.
	OnOutcomes func([]dlq.Outcome) error
}

// Apply makes the change, chunk by chunk, one transaction with its audit row each. An error leaves whole chunks behind:
// the result counts what was done until then, and its kind is Partial if anything was.
func (s *ChangeSet) Apply(ctx context.Context, p ApplyParams) (dlq.RunResult, error) {
	source, err := s.open()
	if err != nil {
		return dlq.RunResult{}, err
	}
	if p.RunID == "" {
		p.RunID = uuid.NewString()
	}
	detail := map[string]any{"runId": p.RunID}
	if s.filter != nil {
		detail["filter"] = s.filter
	}
	if s.Plan != nil {
		detail["planId"] = s.Plan.ID
	}
	if s.params.Undo != nil {
		detail["undoes"] = s.params.Undo.Run
	}
	result, err := s.store.Run(ctx, dlq.RunParams{
		Action: s.Action, Source: source, Who: dlq.Who{Actor: s.params.Actor, Note: s.params.Note},
		Detail: detail, DryRun: p.DryRun, Force: p.Force, Rate: p.Rate, Watch: p.Watch, Plan: s.Plan, OnOutcomes: p.OnOutcomes,
	})
	return result, s.verdict(ctx, p, result, err)
}

// ChangeOutcome is what became of one row and, where that was waited for, of its event after it was sent again.
type ChangeOutcome struct {
	ID      string `json:"id"`
	EventID string `json:"eventId"`
	Outcome string `json:"outcome"`
	Became  string `json:"became,omitempty"`
}

// awaitEvery is how often the database is asked what became of events.
const awaitEvery = 250 * time.Millisecond

// AwaitParams is what to wait for, and for how long.
type AwaitParams struct {
	Sent    []ChangeOutcome
	Timeout time.Duration
	// OnSettled is told of each event once it is published or dead, and of the others when the wait is over.
	OnSettled func(ChangeOutcome) error
}

// Await waits until every event that was sent again is published or dead. Events that are neither in time, and those that
// died again, are an error of the kind Partial. When ctx ends, the wait is over too.
func (s *ChangeSet) Await(ctx context.Context, p AwaitParams) (dlq.Watched, error) {
	rows := make(map[string][]ChangeOutcome, len(p.Sent))
	events := make([]string, 0, len(p.Sent))
	for _, row := range p.Sent {
		if rows[row.EventID] == nil {
			events = append(events, row.EventID)
		}
		rows[row.EventID] = append(rows[row.EventID], row)
	}
	sum, err := s.store.Await(ctx, dlq.AwaitParams{Events: events, Timeout: p.Timeout, Every: awaitEvery, OnSettled: func(event, became string) error {
		for _, row := range rows[event] {
			row.Became = became
			if err := p.OnSettled(row); err != nil {
				return err
			}
		}
		return nil
	}})
	switch {
	case err != nil:
		return sum, fault.Database(err)
	case ctx.Err() != nil:
		return sum, ctx.Err()
	case sum.Published < int64(len(events)):
		return sum, fault.Partialf("not published: %s of %s", words.Count(int64(len(events))-sum.Published), words.Counted(int64(len(events)), "event"))
	}
	return sum, nil
}

// verdict is the error that a run deserves, and a dry run that its run would: what would die again is not replayed at all
// without force.
func (s *ChangeSet) verdict(ctx context.Context, p ApplyParams, r dlq.RunResult, err error) error {
	success := s.Action.Success()
	done := r.Counts[success]
	if p.DryRun {
		done = r.Counts[s.Action.Would()] + r.Counts[dlq.WouldFail]
	}
	switch {
	case r.Interrupted:
		return ctx.Err()
	case r.Unfinished:
		return fault.Partialf("stopped after %s: %w", words.Counted(r.Total(), "row"), fault.Database(err))
	case err != nil:
		return fault.Database(err)
	case r.Stopped != "":
		return fault.Partialf("stopped by itself: %s", r.Stopped)
	case p.DryRun && !p.Force && s.RefuseHopeless() != nil:
		return s.RefuseHopeless()
	}
	bad := r.Total() - done - r.Counts[dlq.DoneByPlan]
	if !s.Until.IsZero() {
		// Another operator was faster: what was wanted has happened.
		bad -= r.Counts[dlq.AlreadyReplayed] + r.Counts[dlq.AlreadyDiscarded] + r.Counts[dlq.AlreadyOpen]
	}
	switch {
	case bad == 0:
		return nil
	case r.Counts[dlq.NotFound] == r.Total():
		return fault.NotFoundf("not found: %s", words.Counted(bad, "id"))
	case done+r.Counts[dlq.DoneByPlan] > 0:
		return fault.Partialf("%s of %s could not be %s", words.Count(bad), words.Counted(r.Total(), s.Action.Noun()), success)
	default:
		return fault.Preconditionf("%s be %s", words.NoneOf(r.Total(), s.Action.Noun()), success)
	}
}
