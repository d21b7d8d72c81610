package dlq

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// Step is one thing that happened to an event.
type Step struct {
	At    time.Time `json:"at"`
	What  string    `json:"what"`
	Actor string    `json:"actor,omitempty"`
	Note  string    `json:"note,omitempty"`
	// Detail is the error of a death, or the broker's id of a publication.
	Detail string `json:"detail,omitempty"`
	// ID is the dead letter's, for a death.
	ID string `json:"id,omitempty"`
}

// History puts in order what happened to an event: when it was emitted, its deaths, what operators
// did and when it was published. event is nil when its row is gone.
func History(event *outbox.Event, deaths []Entry, audit []AuditRow) []Step {
	var steps []Step
	switch {
	case event != nil:
		steps = append(steps, Step{At: event.CreatedAt, What: "emitted"})
	case len(deaths) > 0 && deaths[0].EventCreatedAt != nil:
		steps = append(steps, Step{At: *deaths[0].EventCreatedAt, What: "emitted"})
	}
	for _, d := range deaths {
		what := fmt.Sprintf("died of %s after %s", d.Reason, words.Counted(int64(d.AttemptCount), "attempt"))
		steps = append(steps, Step{At: d.FailedAt, What: what, Detail: d.ErrorMessage, ID: d.ID})
	}
	for _, a := range audit {
		steps = append(steps, Step{At: a.At, What: ActionWord(a), Actor: a.Actor, Note: a.Note})
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

// ActionWord returns what an audit row did to an event.
func ActionWord(a AuditRow) string {
	if a.Action == idem.ActionForget || a.Action == idem.ActionForgetUndone {
		return forgetWord(a)
	}
	known := Action(a.Action).about()
	return cmp.Or(known.past, known.success, a.Action)
}

func forgetWord(a AuditRow) string {
	var detail struct {
		Consumer     string `json:"consumer"`
		InboxRemoved bool   `json:"inboxRemoved"`
	}
	_ = json.Unmarshal(a.Detail, &detail) // written by the database; without it only the name is missing
	switch {
	case a.Action == idem.ActionForgetUndone:
		return fmt.Sprintf("not forgotten by %s after all", detail.Consumer)
	case detail.InboxRemoved:
		return fmt.Sprintf("forgotten by %s, inbox row included", detail.Consumer)
	default:
		return "forgotten by " + detail.Consumer
	}
}
