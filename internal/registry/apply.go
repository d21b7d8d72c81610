package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/words"
)

// actionApply is the action of the audit trail.
const ActionApply = "registry.apply"

// ApplyParams is a catalogue to be recorded.
type ApplyParams struct {
	Catalogue *Registry
	// Revision, when set, is the one that was looked at and confirmed.
	Revision *int64
	// DryRun changes nothing.
	DryRun bool
	// Actor and Note go to the audit row.
	Actor, Note string
}

// ApplyResult is what recording a catalogue changed, or would change.
type ApplyResult struct {
	Difference
	Trial Trial `json:"trial"`
	// Notes is what an operator should know.
	Notes   []string `json:"notes"`
	DryRun  bool     `json:"dryRun"`
	AuditID int64    `json:"auditId,omitempty"`
}

// Asks reports whether the change takes something away, so that an operator has to confirm it.
// Adding never does.
func (r ApplyResult) Asks() bool {
	return len(r.Trial.Refused) > 0 ||
		slices.ContainsFunc(r.Changes, func(c TypeChange) bool { return c.Change == TypeRemoved })
}

// Apply records a catalogue in the database: SQL emitters refuse by it, and publishers that have
// the same one may dead-letter by it. A type of which events wait is not removed, in a dry run
// neither.
func Apply(ctx context.Context, db *pgread.DB, p ApplyParams) (ApplyResult, error) {
	var (
		r   = ApplyResult{DryRun: p.DryRun, Notes: []string{}}
		err error
	)
	if r.Difference, err = Diff(ctx, db, p.Catalogue); err != nil {
		return r, err
	}
	if err := r.refuse(); err != nil {
		return r, err
	}
	decides := slices.ContainsFunc(r.Changes, TypeChange.decides)
	if r.Trial, err = Try(ctx, db, p.Catalogue, decides); err != nil {
		return r, err
	}
	if err := r.note(ctx, db); err != nil {
		return r, err
	}
	if p.DryRun {
		return r, nil
	}
	detail, err := json.Marshal(map[string]any{"catalogue": r.Catalogue, "source": p.Catalogue.Source,
		"changes": r.Changes, "revision": r.Revision + 1})
	if err != nil {
		return r, err
	}
	result, err := p.Catalogue.Record(ctx, db.Pool, catalogue.RecordParams{
		Revision: p.Revision, Actor: p.Actor, Note: p.Note, Detail: string(detail), Changed: int64(len(r.Changes)),
	})
	r.Revision, r.AuditID = max(r.Revision, result.Revision), result.AuditID
	return r, applyError(err)
}

// refuse returns why the catalogue cannot be recorded as it is.
func (r ApplyResult) refuse() error {
	for _, c := range r.Changes {
		if c.Change == TypeRemoved && c.Waiting > 0 {
			return fault.Hint(fault.Preconditionf("type %s cannot be removed while events of it wait to be published (%s)", c.Type, words.Count(c.Waiting)),
				"keep the type until they are published, or name it in another type's was, under which they are published still")
		}
	}
	return nil
}

// note describes what the change means while publishers of the former version run, and which do.
func (r *ApplyResult) note(ctx context.Context, db outbox.DB) error {
	if len(r.Changes) == 0 {
		return nil
	}
	for _, c := range r.Changes {
		switch {
		case !c.decides():
		case slices.Contains(c.Parts, "topic") || slices.Contains(c.Parts, "topic_name"):
			r.Notes = append(r.Notes, fmt.Sprintf("publishers with another catalogue go on publishing %s to its former topic until they are replaced", c.Type))
		default:
			r.Notes = append(r.Notes, fmt.Sprintf("publishers with another version of %s stand down from it when an event does not fit theirs", c.Type))
		}
	}
	live, err := dispatch.Peers(ctx, db)
	if err != nil {
		return err
	}
	follows := Database
	if r.Revision == 0 {
		follows = PackFinderz // what one that goes by the database says as long as nothing is recorded
	}
	for _, p := range live {
		if p.Alive && p.State.Catalogue != nil && p.State.Catalogue.Source != follows {
			r.Notes = append(r.Notes, fmt.Sprintf("publisher %s/%d runs with catalogue %s: it leaves what that lacks to others until it is restarted with this one",
				p.Host, p.PID, p.State.Catalogue.Source))
		}
	}
	return nil
}

func applyError(err error) error {
	switch {
	case errors.Is(err, catalogue.ErrChanged):
		return fault.Hint(fault.As(fault.Precondition, err),
			"another catalogue was applied meanwhile; run registry diff and apply again")
	case errors.Is(err, catalogue.ErrWaiting):
		return fault.Hint(fault.As(fault.Precondition, err), "outboxctl stats --by type shows what waits")
	case errors.Is(err, catalogue.ErrColumns):
		return fault.As(fault.Precondition, err)
	case errors.Is(err, catalogue.ErrOtherCatalogue):
		return fault.Hint(fault.As(fault.Precondition, err),
			"one file speaks for a namespace: put the types into that one (outboxctl registry export database prints it), or give this one a namespace of its own")
	}
	return err
}
