package dlq

import (
	"cmp"
	"context"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// DryRunParams is how a change is looked at.
type DryRunParams struct {
	// Force replays what would fail again unchanged; without it the preview tells which that is.
	Force bool
	// OnOutcomes is told what would become of each row, chunk by chunk.
	OnOutcomes func([]Outcome) error
}

// Preview tells what would become of each row and changes nothing. Its error is the one that the
// change would have.
func (s *ChangeSet) Preview(ctx context.Context, p DryRunParams) (RunResult, error) {
	r := RunResult{Counts: map[string]int64{}}
	err := s.each(ctx, func(targets []Target) error {
		outcomes, err := s.foretell(ctx, p, targets)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			r.Counts[o.Outcome]++
		}
		return p.OnOutcomes(outcomes)
	})
	switch {
	case ctx.Err() != nil:
		r.Interrupted = true
		return r, ctx.Err()
	case err != nil:
		return r, err
	case !p.Force && s.RefuseHopeless() != nil:
		return r, s.RefuseHopeless()
	}
	return r, verdict(s.Action, s.filter != nil, r.Counts, r.Counts[s.Action.Would()]+r.Counts[WouldFail])
}

// foretell returns what would become of targets, in the words of a dry run.
func (s *ChangeSet) foretell(ctx context.Context, p DryRunParams, targets []Target) ([]Outcome, error) {
	outcomes, err := s.outbox.judge(ctx, s.Action, targets, s.params.Discard)
	if err != nil {
		return nil, err
	}
	fails := map[string]bool{}
	if s.Action == Replay && !p.Force {
		hopeless, err := outbox.Rows[Target](ctx, s.outbox.DB, "preview "+string(s.Action), selectHopeless, idsOf(targets), HopelessReasons())
		if err != nil {
			return nil, err
		}
		for _, t := range hopeless {
			fails[t.ID] = true
		}
	}
	for i, o := range outcomes {
		switch {
		case o.Outcome != s.Action.Success():
		case fails[o.ID]:
			outcomes[i].Outcome = WouldFail
		default:
			outcomes[i].Outcome = s.Action.Would()
		}
	}
	return outcomes, nil
}

// judge returns what an action would do to targets, without doing it.
func (o *Outbox) judge(ctx context.Context, action Action, targets []Target, discard bool) ([]Outcome, error) {
	return outbox.Rows[Outcome](ctx, o.DB, "preview "+string(action), previewRows,
		idsOf(targets), seenOf(action, targets, discard), string(action))
}

// verdict is the error for rows of which some could not be changed, by what became of them; done is
// how many were.
func verdict(action Action, filtered bool, counts map[string]int64, done int64) error {
	total := RunResult{Counts: counts}.Total()
	bad := total - done
	if filtered {
		// Another operator was faster, so that what was wanted has happened; or the content is erased,
		// and nobody asked for that row in particular.
		bad -= counts[AlreadyReplayed] + counts[AlreadyDiscarded] + counts[AlreadyOpen] + counts[AlreadyErased] + counts[EventErased]
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

// Await waits until every event that was sent again is published or dead. Events that are neither
// in time, and those that died again, are an error of the kind Partial. When ctx ends, the wait is
// over too.
func (o *Outbox) Await(ctx context.Context, p AwaitParams) (Fates, error) {
	sum, err := o.await(ctx, p)
	if err = cmp.Or(err, ctx.Err()); err == nil && sum.Published < sum.All() {
		err = fault.Partialf("not published: %s of %s", words.Count(sum.All()-sum.Published), words.Counted(sum.All(), "event"))
	}
	return sum, err
}
