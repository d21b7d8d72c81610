package dlq

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Step is one thing that happened to an event.
type Step struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	Actor  string    `json:"actor,omitempty"`
	Reason string    `json:"reason,omitempty"`
	// Detail is the error of a death, or the broker's id of a publication.
	Detail string `json:"detail,omitempty"`
	// ID is the dead letter's, for a death.
	ID string `json:"id,omitempty"`
}

// Deaths are an event's dead letters, oldest first.
func (s *Store) Deaths(ctx context.Context, eventID string) ([]Entry, error) {
	deaths, err := collect(ctx, s.db, scanEntry, selectEventEntries, eventID)
	if err != nil {
		return nil, fmt.Errorf("read the event's deaths: %w", err)
	}
	return deaths, nil
}

// EventAudit is what operators did to an event, oldest first.
func (s *Store) EventAudit(ctx context.Context, eventID string) ([]AuditRow, error) {
	rows, err := collect(ctx, s.db, scanAudit, selectEventAudit, eventID)
	if err != nil {
		return nil, fmt.Errorf("read the event's audit trail: %w", err)
	}
	return rows, nil
}

// History puts in order what happened to an event: emitted, died, what
// operators did, published. event is nil when its row is gone.
func History(event *Event, deaths []Entry, audit []AuditRow) []Step {
	var steps []Step
	switch {
	case event != nil:
		steps = append(steps, Step{At: event.CreatedAt, What: "emitted"})
	case len(deaths) > 0 && deaths[0].EventCreatedAt != nil:
		steps = append(steps, Step{At: *deaths[0].EventCreatedAt, What: "emitted"})
	}
	for _, d := range deaths {
		what := fmt.Sprintf("died of %s after %d attempts", d.Reason, d.AttemptCount)
		steps = append(steps, Step{At: d.FailedAt, What: what, Detail: d.ErrorMessage, ID: d.ID})
	}
	for _, a := range audit {
		steps = append(steps, Step{At: a.At, What: actionWord(a), Actor: a.Actor, Reason: a.Reason})
	}
	if event != nil && event.PublishedAt != nil {
		step := Step{At: *event.PublishedAt, What: "published"}
		if event.BrokerMessageID != nil {
			step.Detail = *event.BrokerMessageID
		}
		steps = append(steps, step)
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.At.Compare(b.At) })
	return steps
}

// What consumers were made to forget, as idem forget records it.
const (
	forgetAction       = "idem_forget"
	forgetUndoneAction = "idem_forget_undone"
)

func actionWord(a AuditRow) string {
	switch Action(a.Action) {
	case Replay:
		return "replayed"
	case Discard:
		return "discarded"
	case Restore:
		return "restored"
	case Republish:
		return "sent to be published again"
	case forgetAction, forgetUndoneAction:
		return forgetWord(a)
	default:
		return a.Action
	}
}

func forgetWord(a AuditRow) string {
	var detail struct {
		Consumer     string `json:"consumer"`
		InboxRemoved bool   `json:"inboxRemoved"`
	}
	_ = json.Unmarshal(a.Detail, &detail) // written by the database; without it the name is missing, no more
	switch {
	case a.Action == forgetUndoneAction:
		return fmt.Sprintf("not forgotten by %s after all", detail.Consumer)
	case detail.InboxRemoved:
		return fmt.Sprintf("forgotten by %s, inbox row included", detail.Consumer)
	default:
		return "forgotten by " + detail.Consumer
	}
}
