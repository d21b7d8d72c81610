package dlq

import (
	"strings"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Action is a change an operator can make. Its name is the one in the audit.
type Action string

// The actions.
const (
	Replay    Action = "dlq.replay"
	Discard   Action = "dlq.discard"
	Restore   Action = "dlq.restore"
	Republish Action = "event.republish"
	Edit      Action = "dlq.edit"
	Retry     Action = "event.retry"
	Erase     Action = "event.erase"
)

// Verb is what the action does: replay, discard, restore, republish, edit, retry or erase.
func (a Action) Verb() string {
	_, verb, _ := strings.Cut(string(a), ".")
	return verb
}

// Noun is what the action is done to, in the singular.
func (a Action) Noun() string {
	switch a {
	case Republish:
		return "published event"
	case Retry, Erase:
		return "event"
	default:
		return "dead letter"
	}
}

// OnEvents reports whether the action is done to events; the others are done to dead letters.
func (a Action) OnEvents() bool { return a == Republish || a == Retry || a == Erase }

// Sends reports whether the action has events published that would not be without it, so that it
// can be watched and stopped. A retry only brings forward what is published anyway.
func (a Action) Sends() bool { return a == Replay || a == Republish }

// State is the state of the dead letters, or the status of the events, that the action is done to;
// empty: any.
func (a Action) State() string {
	switch a {
	case Restore:
		return StateDiscarded
	case Republish:
		return outbox.StatusPublished
	case Retry:
		return outbox.StatusPending
	case Erase:
		return ""
	default:
		return StateOpen
	}
}

// Would is what a dry run tells of a target that the action would succeed for.
func (a Action) Would() string {
	if a == Edit {
		return "would_correct"
	}
	return "would_" + a.Verb()
}

// Success is the outcome of an action that did what was asked.
func (a Action) Success() string {
	switch a {
	case Discard:
		return Discarded
	case Restore:
		return Restored
	case Republish:
		return Republished
	case Edit:
		return Corrected
	case Retry:
		return Retried
	case Erase:
		return Erased
	default:
		return Replayed
	}
}
