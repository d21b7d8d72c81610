package idem

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// The actions of the audit trail that concern the consumers' marks.
const (
	ActionForget       = "consumer.forget"
	ActionForgetUndone = "consumer.forget_undone"
)

// ForgetParams describes which consumer is to forget which event.
type ForgetParams struct {
	// ID is an event's or a dead letter's.
	ID       string
	Consumer string
	// Inbox removes the consumer's inbox row as well.
	Inbox bool
	// Force forgets the event although a handler is working on it.
	Force bool
	// DryRun changes nothing and needs no note.
	DryRun bool
	// Actor, Note and Detail go to the audit row.
	Actor, Note string
	Detail      map[string]any
}

// ForgetResult is what Forget did, or found in a dry run.
type ForgetResult struct {
	EventID  string `json:"eventId"`
	Consumer string `json:"consumer"`
	// State is what Redis knew before.
	State string `json:"state"`
	// Forgotten reports that the key in Redis was deleted.
	Forgotten    bool  `json:"forgotten"`
	InboxRemoved bool  `json:"inboxRemoved"`
	AuditID      int64 `json:"auditId,omitempty"`
	DryRun       bool  `json:"dryRun"`
	// InInbox reports that the consumer had an inbox row.
	InInbox bool `json:"-"`
}

// hasFailed asks whether a failure of the event is recorded, which is forgotten, too.
const hasFailed = `SELECT EXISTS (SELECT FROM outbox_consumer_failures WHERE consumer = $1 AND event_id = $2::uuid)`

// Forget makes a consumer process an event again when it is delivered the next time. It refuses
// what would have no effect or would be dangerous, in a dry run too.
//
// The audit row is committed before the key is deleted: a crash in between leaves a recorded
// intention that can be repeated, never a deletion without a record. A deletion that did not happen
// gets an audit row of its own.
func (o *Outbox) Forget(ctx context.Context, p ForgetParams) (ForgetResult, error) {
	if err := p.Check(); err != nil {
		return ForgetResult{}, err
	}
	if o.Keeper == nil {
		return ForgetResult{}, ErrNoRedis()
	}
	id, err := o.EventID(ctx, p.ID)
	if err != nil {
		return ForgetResult{}, err
	}
	event, err := uuid.Parse(id)
	if err != nil {
		return ForgetResult{}, err
	}
	entry, err := o.Keeper.Lookup(ctx, p.Consumer, event)
	if err != nil {
		return ForgetResult{}, redisError(err)
	}
	inbox, err := o.inboxTimes(ctx, id, []string{p.Consumer})
	if err != nil {
		return ForgetResult{}, err
	}
	result := ForgetResult{EventID: id, Consumer: p.Consumer, State: string(entry.State), DryRun: p.DryRun}
	_, result.InInbox = inbox[p.Consumer]
	failed, err := outbox.One[bool](ctx, o.DB, "look for a failure", hasFailed, p.Consumer, id)
	if err != nil {
		return ForgetResult{}, err
	}
	if err := p.refuse(entry, result.InInbox, failed); err != nil || p.DryRun {
		return result, err
	}
	err = o.forget(ctx, p, entry, &result)
	return result, err
}

// Check reports what is wrong with the params, before anything is opened, and makes the id
// canonical.
func (p *ForgetParams) Check() (err error) {
	if p.ID, err = outbox.ParseID(p.ID); err != nil {
		return err
	}
	var problems []error
	if p.Consumer == "" {
		problems = append(problems, errors.New("specify the consumer that forgets the event (--consumer)"))
	} else if err := consume.ValidateConsumer(p.Consumer); err != nil {
		problems = append(problems, err)
	}
	if p.Note == "" && !p.DryRun {
		problems = append(problems, errors.New("give a note for the audit trail (--note)"))
	}
	if err := errors.Join(problems...); err != nil {
		return fault.Hint(fault.As(fault.Usage, err), "outboxctl consumer show %s lists the consumers", p.ID)
	}
	return nil
}

// refuse returns why there is nothing to forget, or why it must not be forgotten now.
func (p ForgetParams) refuse(entry Entry, inInbox, failed bool) error {
	switch {
	case entry.State == consume.StateUnknown && failed:
		return nil
	case entry.State == consume.StateUnknown && !inInbox:
		return fault.NotFoundf("consumer %s knows nothing about event %s", p.Consumer, entry.EventID)
	case entry.State == consume.StateUnknown && !p.Inbox:
		return fault.Hint(fault.NotFoundf("redis knows nothing about event %s, only the inbox of %s does", entry.EventID, p.Consumer),
			"--inbox removes the inbox row")
	case entry.State == consume.StateProcessing && !p.Force:
		return fault.Hint(fault.Preconditionf("event %s is being processed by %s", entry.EventID, safetext.Line(entry.Owner)),
			"wait until it is done; --force lets a second handler run beside it")
	default:
		return nil
	}
}

// The functions write the audit row in the same transaction.
const (
	callForget       = `SELECT audit_id, inbox_removed FROM outbox_forget_event($1::text, $2::uuid, $3::boolean, $4::text, $5::text, $6::jsonb)`
	callForgetUndone = `SELECT outbox_forget_event_undone($1::bigint, $2::text, $3::text, $4::jsonb)`
)

// forgetTimeout bounds the correction of the audit trail.
const forgetTimeout = 5 * time.Second

// forget records the intention and deletes the key that entry was read from, unless it has changed
// since.
func (o *Outbox) forget(ctx context.Context, p ForgetParams, entry Entry, result *ForgetResult) error {
	about := map[string]any{"state": entry.State, "owner": entry.Owner, "forced": p.Force}
	maps.Copy(about, p.Detail)
	err := o.DB.QueryRow(ctx, callForget, p.Consumer, entry.EventID.String(), p.Inbox, p.Actor, p.Note, outbox.JSON{Of: about}).
		Scan(&result.AuditID, &result.InboxRemoved)
	if err != nil {
		return fmt.Errorf("write the audit row: %w", err)
	}
	if entry.State == consume.StateUnknown {
		return nil
	}
	forgotten, err := o.Keeper.Forget(ctx, entry)
	if err == nil && forgotten {
		result.Forgotten = true
		return nil
	}
	problem := "the key changed before it could be deleted"
	if err != nil {
		problem = safetext.Stored(err.Error())
	}
	// The record must be corrected even when the caller has given up.
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	var undone int64
	auditErr := o.DB.QueryRow(settle, callForgetUndone, result.AuditID, p.Actor, problem, `{"redisForgotten": false}`).Scan(&undone)
	return fault.Hint(errors.Join(fault.Preconditionf("redis did not forget event %s: %s", entry.EventID, problem), auditErr),
		"outboxctl consumer show %s shows what it knows now", entry.EventID)
}
