package dlq

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// PreviewParams describes a dry run.
type PreviewParams struct {
	Action Action
	Source Source
	// Force replays what would fail again unchanged; without it the preview tells which that is.
	Force bool
	// OnOutcomes is told what would become of each chunk.
	OnOutcomes func([]Outcome) error
}

// PreviewAll tells what an action would do to every target of a source, in the words of a dry run. It changes nothing.
func (s *Store) PreviewAll(ctx context.Context, p PreviewParams) (RunResult, error) {
	res := RunResult{Counts: map[string]int64{}}
	for {
		targets, err := p.Source.Next(ctx, ChunkSize)
		var outcomes []Outcome
		if err == nil && len(targets) > 0 {
			outcomes, err = s.foretell(ctx, p, targets)
		}
		switch {
		case ctx.Err() != nil:
			res.Interrupted = true
			return res, nil
		case err != nil || len(targets) == 0:
			return res, err
		}
		for _, o := range outcomes {
			res.Counts[o.Outcome]++
		}
		if err := p.OnOutcomes(outcomes); err != nil {
			return res, err
		}
	}
}

func (s *Store) foretell(ctx context.Context, p PreviewParams, targets []Target) ([]Outcome, error) {
	outcomes, err := s.Preview(ctx, p.Action, targets)
	if err != nil {
		return nil, err
	}
	fails := map[string]bool{}
	if p.Action == Replay && !p.Force {
		hopeless, err := collect(ctx, s.db, pgx.RowTo[string], selectHopeless, idsOf(targets), HopelessReasons())
		if err != nil {
			return nil, fmt.Errorf("preview %s: %w", p.Action, err)
		}
		for _, id := range hopeless {
			fails[id] = true
		}
	}
	for i, o := range outcomes {
		switch {
		case o.Outcome != p.Action.Success():
		case fails[o.ID]:
			outcomes[i].Outcome = WouldFail
		default:
			outcomes[i].Outcome = p.Action.Would()
		}
	}
	return outcomes, nil
}

// Preview returns what an action would do to targets, without doing it.
func (s *Store) Preview(ctx context.Context, action Action, targets []Target) ([]Outcome, error) {
	outcomes, err := collect(ctx, s.db, scanOutcome, previewRows, idsOf(targets), seenOf(action, targets), string(action))
	if err != nil {
		return nil, fmt.Errorf("preview %s: %w", action, err)
	}
	return outcomes, nil
}
