package dlq

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Outcome is what became of one row and, where that was waited for, of its event after it was sent
// again.
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
	return cmp.Or(map[string]string{
		AlreadyReplayed:  "already replayed",
		AlreadyDiscarded: "already discarded",
		AlreadyOpen:      "not discarded",
		AlreadyCorrected: "already corrected: replaced by another event",
		Discarded:        "discarded",
		EventLive:        "already on the way",
		EventPublished:   "already published",
		EventGone:        "removed by cleanup",
		EventErased:      "erased: there is nothing left to send",
		AlreadyErased:    "already erased",
		Waiting:          "waiting to be published",
		InFlight:         "being published",
		Changed:          "changed since",
		NotPublished:     "not published",
		NotBackingOff:    "due already, or being published",
		Dead:             "dead, not published",
		NotFound:         "not found",
		WouldFail:        "would fail again unchanged",
	}[outcome], outcome)
}

// HopelessReasons are the reasons that neither time nor the broker can change: an event that died
// for one of them dies again unless its type's definition or the publisher has changed.
func HopelessReasons() []string {
	return []string{string(outbox.ReasonInvalidPayload), string(outbox.ReasonAggregateMismatch), string(outbox.ReasonMessageTooLarge)}
}

// Hopeless reports whether an event that died for this reason would fail again unchanged.
func Hopeless(reason string) bool { return slices.Contains(HopelessReasons(), reason) }

// OrderEffects describes what a change to dead events does to those that wait behind them in their
// ordering key.
type OrderEffects struct {
	// Releases is how many waiting events a discard lets go.
	Releases int64 `json:"releases,omitempty"`
	// Behind is how many of the events stay parked when they are replayed: a dead one before them is
	// not replayed.
	Behind int64 `json:"behind,omitempty"`
}

// The events of a set, for orderEffects.
const (
	namedEvents = `unnest($1::uuid[])`
	planEvents  = `(SELECT unnest(c.event_ids) FROM outbox_plan_chunks AS c WHERE c.plan_id = $1::uuid)`
)

// effects looks at what an action does to what waits behind the events that a query finds by its
// argument. Where no key stands still it costs one look at an index; arg is asked only otherwise.
func (o *Outbox) effects(ctx context.Context, action Action, query string, arg func() (any, error)) (out OrderEffects, err error) {
	if action != Replay && action != Discard {
		return out, nil
	}
	some, err := outbox.One[bool](ctx, o.DB, "look for keys that stand still", anyBlocked)
	if err != nil || !some {
		return out, err
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
