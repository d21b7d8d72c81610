package dlq

import (
	"strings"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Verb is what the action does: replay, discard, restore, republish, edit or retry.
func (a Action) Verb() string {
	_, verb, _ := strings.Cut(string(a), ".")
	return verb
}

// Group is the group of commands that the action belongs to: dlq or event.
func (a Action) Group() string {
	group, _, _ := strings.Cut(string(a), ".")
	return group
}

// Noun is what the action is done to, in the singular.
func (a Action) Noun() string {
	switch a {
	case Republish:
		return "published event"
	case Retry:
		return "event"
	default:
		return "dead letter"
	}
}

// OnEvents reports whether the action is done to events; the others are done to dead letters.
func (a Action) OnEvents() bool { return a == Republish || a == Retry }

// Sends reports whether the action has events published that would not be without it, so that it can be planned, watched
// and stopped. A retry only brings forward what is published anyway.
func (a Action) Sends() bool { return a == Replay || a == Republish }

// State is the state of the dead letters, or the status of the events, that the action is done to.
func (a Action) State() string {
	switch a {
	case Restore:
		return StateDiscarded
	case Republish:
		return outbox.StatusPublished
	case Retry:
		return outbox.StatusPending
	default:
		return StateOpen
	}
}
