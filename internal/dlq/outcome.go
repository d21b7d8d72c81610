package dlq

import (
	"context"
	"fmt"
	"slices"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Outcome is what became of one row and, where that was waited for, of its event after it was sent again.
type Outcome struct {
	ID      string `json:"id"`
	EventID string `json:"eventId"`
	Outcome string `json:"outcome"`
	Became  string `json:"became,omitempty" db:"-"`
}

// What became of one row. The first group is success.
const (
	Replayed    = "replayed"
	Discarded   = "discarded"
	Restored    = "restored"
	Republished = "republished"
	Corrected   = "corrected"
	Retried     = "retried"
	Erased      = "erased"

	AlreadyReplayed  = "already_replayed"
	AlreadyDiscarded = "already_discarded"
	AlreadyOpen      = "already_open"
	AlreadyCorrected = "already_corrected"
	EventLive        = "event_live"
	EventPublished   = "event_published"
	EventGone        = "event_gone"
	EventErased      = "event_erased"
	AlreadyErased    = "already_erased"
	Waiting          = "waiting"
	InFlight         = "in_flight"
	Changed          = "changed"
	NotPublished     = "not_published"
	NotBackingOff    = "not_backing_off"
	Dead             = "dead"
	NotFound         = "not_found"
	// WouldFail is told by a dry run of a replay: the event would fail again unchanged.
	WouldFail = "would_fail"
)

// Explain returns an outcome in words.
func Explain(outcome string) string {
	switch outcome {
	case AlreadyReplayed:
		return "already replayed"
	case AlreadyDiscarded:
		return "already discarded"
	case AlreadyOpen:
		return "not discarded"
	case AlreadyCorrected:
		return "already corrected: replaced by another event"
	case Discarded:
		return "discarded"
	case EventLive:
		return "already on the way"
	case EventPublished:
		return "already published"
	case EventGone:
		return "removed by cleanup"
	case EventErased:
		return "erased: there is nothing left to send"
	case AlreadyErased:
		return "already erased"
	case Waiting:
		return "waiting to be published"
	case InFlight:
		return "being published"
	case Changed:
		return "changed since"
	case NotPublished:
		return "not published"
	case NotBackingOff:
		return "due already, or being published"
	case Dead:
		return "dead, not published"
	case NotFound:
		return "not found"
	case WouldFail:
		return "would fail again unchanged"
	default:
		return outcome
	}
}

// HopelessReasons are the reasons that neither time nor the broker can change: an event that died for one of them dies
// again unless its type's definition or the publisher has changed.
func HopelessReasons() []string {
	return []string{string(outbox.ReasonInvalidPayload), string(outbox.ReasonAggregateMismatch), string(outbox.ReasonMessageTooLarge)}
}

// Hopeless reports whether an event that died for this reason would fail again unchanged.
func Hopeless(reason string) bool { return slices.Contains(HopelessReasons(), reason) }

// OrderEffects describes what a change to dead events does to those that wait behind them in their ordering key.
type OrderEffects struct {
	// Releases is how many waiting events a discard lets go.
	Releases int64 `json:"releases,omitempty"`
	// Behind is how many of the events stay parked when they are replayed: a dead one before them is not replayed.
	Behind int64 `json:"behind,omitempty"`
}

// The events of a set, for orderEffects.
const (
	namedEvents = `unnest($1::uuid[])`
	planEvents  = `(SELECT unnest(c.event_ids) FROM outbox_plan_chunks AS c WHERE c.plan_id = $1::uuid)`
)

// effects looks at what an action does to what waits behind the events that a query finds by its argument. Where no key
// stands still it costs one look at an index; arg is asked only otherwise.
func (o *Outbox) effects(ctx context.Context, action Action, query string, arg func() (any, error)) (out OrderEffects, err error) {
	if action != Replay && action != Discard {
		return out, nil
	}
	var some bool
	if err := o.DB.QueryRow(ctx, anyBlocked).Scan(&some); err != nil {
		return out, fmt.Errorf("look for keys that stand still: %w", err)
	}
	if !some {
		return out, nil
	}
	set, err := arg()
	if err != nil {
		return out, err
	}
	if err := o.DB.QueryRow(ctx, fmt.Sprintf(orderEffects, query), set).Scan(&out.Releases, &out.Behind); err != nil {
		return out, fmt.Errorf("count what waits behind the events: %w", err)
	}
	if action == Discard {
		return OrderEffects{Releases: out.Releases}, nil
	}
	return OrderEffects{Behind: out.Behind}, nil
}
