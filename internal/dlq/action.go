package dlq

import (
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
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

// auditAction is what is known of an action of the audit trail.
type auditAction struct {
	name Action
	// noun is what it is done to, in the singular; state is that of the dead letters, or the status
	// of the events.
	noun, state string
	// success is the outcome of one that did what was asked; past is what happened to an event,
	// where that is another word.
	success, past string
	// final is why it cannot be taken back; empty: it can, and undo is the action that takes back
	// what it did to dead letters.
	final string
	undo  Action
}

// auditActions are all actions of the audit trail. Those without a noun are no changes to rows
// that were chosen.
func auditActions() []auditAction {
	const letter, event, sent = "dead letter", "event", "the events are on their way again"
	return []auditAction{
		{name: Replay, noun: letter, state: StateOpen, success: Replayed, final: sent},
		{name: Discard, noun: letter, state: StateOpen, success: Discarded, undo: Restore},
		{name: Restore, noun: letter, state: StateDiscarded, success: Restored, undo: Discard},
		{name: Republish, noun: "published event", state: outbox.StatusPublished, success: Republished, past: "sent to be published again", final: sent},
		{name: Edit, noun: letter, state: StateOpen, success: Corrected, final: "the corrected event is on its way"},
		{name: Retry, noun: event, state: outbox.StatusPending, success: Retried, past: "made due now", final: sent},
		{name: Erase, noun: event, success: Erased, final: "what the events carried is gone"},
		{name: "cleanup", final: "the rows are gone"},
		{name: idem.ActionForget, final: "a consumer may have processed the event since"},
		{name: idem.ActionForgetUndone, final: nothingUndoes},
		{name: actionReveal, final: "what was seen was seen"},
		{name: registry.ActionApply, final: "apply the catalogue of before"},
		{name: outbox.ActionPause},
		{name: outbox.ActionResume},
	}
}

const nothingUndoes = "nothing takes it back"

// about is what is known of the action.
func (a Action) about() auditAction {
	all := auditActions()
	if i := slices.IndexFunc(all, func(known auditAction) bool { return known.name == a }); i >= 0 {
		return all[i]
	}
	return auditAction{name: a, final: nothingUndoes}
}

// AuditActions lists the actions of the audit trail.
func AuditActions() (names []string) {
	for _, a := range auditActions() {
		names = append(names, string(a.name))
	}
	return names
}

// Verb is what the action does: replay, discard, restore, republish, edit, retry or erase.
func (a Action) Verb() string {
	_, verb, _ := strings.Cut(string(a), ".")
	return verb
}

// Noun is what the action is done to, in the singular.
func (a Action) Noun() string { return a.about().noun }

// OnEvents reports whether the action is done to events; the others are done to dead letters.
func (a Action) OnEvents() bool { return a == Republish || a == Retry || a == Erase }

// Sends reports whether the action has events published that would not be without it, so that it
// can be watched and stopped. A retry only brings forward what is published anyway.
func (a Action) Sends() bool { return a == Replay || a == Republish }

// State is the state of the dead letters, or the status of the events, that the action is done to;
// empty: any.
func (a Action) State() string { return a.about().state }

// Would is what a dry run tells of a target that the action would succeed for.
func (a Action) Would() string {
	if a == Edit {
		return "would_correct"
	}
	return "would_" + a.Verb()
}

// Success is the outcome of an action that did what was asked.
func (a Action) Success() string { return a.about().success }
