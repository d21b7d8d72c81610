package dlq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

const (
	// planMarksTimeout bounds the questions to Redis: what it does not answer in this time is not
	// known.
	planMarksTimeout = 300 * time.Millisecond
	// planMarksRows is how many events of a plan the consumers are asked about.
	planMarksRows = 1000
	// typedAbove is the largest set of named rows that is confirmed without typing its count.
	typedAbove = 100
)

// Typed reports whether the count of a plan has to be typed to confirm it: the operator has not
// looked at each row of a set that a filter chose, or of a large one, or what it does cannot be had
// again.
func Typed(p Plan) bool { return p.Filtered() || p.Total > typedAbove || p.Action == Erase }

// PlanPreview is a plan as a person sees it who decides whether to run it.
type PlanPreview struct {
	PlanDetail
	// Letters or Events are its first rows.
	Letters []Entry
	Events  []outbox.Event
	// Overtaken is how many of the first MarksOf events have a later one of their aggregate that is
	// published: consumers would see the older state last.
	Overtaken int64
	// Marks is what the consumers remember of the first MarksOf events; MarksError is why that is not
	// known.
	Marks      []MarkCount
	MarksOf    int
	MarksError string
}

// PreviewPlan reads what is needed to decide about a plan.
func (o *Outbox) PreviewPlan(ctx context.Context, id string) (PlanPreview, error) {
	plan, err := o.Plan(ctx, id)
	if err != nil {
		return PlanPreview{}, err
	}
	p := PlanPreview{PlanDetail: plan}
	var ids, events []string // none of a plan that was abandoned
	err = o.DB.QueryRow(ctx, selectPlanFirst, plan.ID, planMarksRows).Scan(&ids, &events)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read the first rows of the plan: %w", err)
	}
	if p.Letters, p.Events, err = o.sample(ctx, plan.Action, ids); err != nil {
		return p, err
	}
	p.MarksOf = len(events)
	if plan.Action.Sends() {
		if p.Overtaken, err = o.Overtaken(ctx, events); err != nil {
			return p, err
		}
	}
	if p.Marks, err = o.allMarks(ctx, events); err != nil {
		p.MarksError = safetext.Redact(err.Error())
	}
	return p, nil
}

// Confirmation is what a person says who wants a plan to be run: what they believe it is.
type Confirmation struct {
	Count    int64
	Database string
	// Note is why; the plan's own counts where it has one.
	Note string
	// Force runs also what would fail again unchanged.
	Force bool
}

// Confirm reports why a plan must not be run after this confirmation.
func (c Confirmation) Confirm(p Plan) error {
	if c.Count != p.Total || c.Database != p.Database.Name {
		return fault.Hint(fault.Preconditionf("not confirmed: the plan is to %s %s in %s, not %s in %s", p.Action.Verb(), words.Counted(p.Total, "row"),
			safetext.Line(p.Database.Name), words.Count(c.Count), quoted(c.Database)), "nothing was changed; look at the plan once more")
	}
	if strings.TrimSpace(c.Note) == "" && p.Note == "" {
		return fault.Usagef("note: say why, for the audit trail")
	}
	if c.Force {
		return nil
	}
	return RefuseHopeless(p)
}

// RefuseHopeless returns the error for a plan that replays dead letters which would fail again; nil
// when there are none.
func RefuseHopeless(p Plan) error { return refuseHopeless(p.Action, p.Summary.Reasons, p.Total) }

func quoted(name string) string {
	if name == "" {
		return "no database"
	}
	return fmt.Sprintf("%q", safetext.Line(name))
}
