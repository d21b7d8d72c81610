package dlq

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/failpoint"
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
)

// What became of one target. The first group is success.
const (
	Replayed    = "replayed"
	Discarded   = "discarded"
	Restored    = "restored"
	Republished = "republished"
	Corrected   = "corrected"
	Retried     = "retried"

	AlreadyReplayed  = "already_replayed"
	AlreadyDiscarded = "already_discarded"
	AlreadyOpen      = "already_open"
	AlreadyCorrected = "already_corrected"
	EventLive        = "event_live"
	EventPublished   = "event_published"
	EventGone        = "event_gone"
	Changed          = "changed"
	NotPublished     = "not_published"
	NotBackingOff    = "not_backing_off"
	Dead             = "dead"
	NotFound         = "not_found"
	// DoneByPlan: an earlier run of the same plan did it.
	DoneByPlan = "done_by_plan"
	// WouldFail is told by a dry run of a replay: the event would die again as it is stored.
	WouldFail = "would_fail"
)

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
	default:
		return Replayed
	}
}

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
	case DoneByPlan:
		return "done by an earlier run of this plan"
	default:
		return outcome
	}
}

// Outcome is what became of one target.
type Outcome struct {
	ID      string `json:"id"`
	EventID string `json:"eventId"`
	Outcome string `json:"outcome"`
}

// Who is behind a change, and why.
type Who struct {
	Actor string
	Note  string
}

// chunkTimeout bounds one transaction of a change, and each question that belongs to it.
const chunkTimeout = 30 * time.Second

// finishing returns a context for what is finished although ctx has ended, such as a change that was sent: it ends after
// chunkTimeout, so that a database that hangs does not hold the caller for ever.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), chunkTimeout)
}

// Act performs one action on a set of targets in one transaction and returns
// what became of each, in their order. detail goes to the audit row.
//
// It does not stop when ctx is cancelled: a change that was sent is waited for,
// so that the caller can say what happened.
func (s *Store) Act(ctx context.Context, action Action, targets []Target, who Who, detail map[string]any) ([]Outcome, error) {
	ctx, cancel := finishing(ctx)
	defer cancel()
	doc, err := json.Marshal(detail)
	if err != nil {
		return nil, fmt.Errorf("encode audit detail: %w", err)
	}
	ids := make([]string, len(targets))
	args := []any{ids, who.Actor, who.Note, string(doc)}
	for i, t := range targets {
		ids[i] = t.ID
	}
	switch action {
	case Republish:
		args = append(args, seenTimes(targets))
	case Discard, Restore:
		args = append(args, seenAudits(targets))
	}
	// A role may default to REPEATABLE READ, where waiting for another operator ends in an error.
	tx, err := s.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("begin %s: %w", action, err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after a commit
	rows, err := tx.Query(ctx, actStatement(action), args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	outcomes, err := pgx.CollectRows(rows, scanOutcome)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", action, err)
	}
	failpoint.Hit(failpoint.Replaying)
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit %s: %w", action, err)
	}
	return outcomes, nil
}

func scanOutcome(row pgx.CollectableRow) (o Outcome, err error) {
	return o, row.Scan(&o.ID, &o.EventID, &o.Outcome)
}

// seenTimes are the times at which events were seen to be published, as text: in the simple
// protocol the driver cannot write an array of times.
func seenTimes(targets []Target) []*string {
	seen := make([]*string, len(targets))
	for i, t := range targets {
		if !t.At.IsZero() {
			at := t.At.UTC().Format(time.RFC3339Nano)
			seen[i] = &at
		}
	}
	return seen
}

// seenAudits are the audit rows that dead letters must still have, as text like seenTimes.
func seenAudits(targets []Target) []*string {
	seen := make([]*string, len(targets))
	for i, t := range targets {
		if t.AuditID != 0 {
			id := strconv.FormatInt(t.AuditID, 10)
			seen[i] = &id
		}
	}
	return seen
}

func actStatement(action Action) string {
	switch action {
	case Discard:
		return callDiscard
	case Restore:
		return callRestore
	case Republish:
		return callRepublish
	case Retry:
		return callRetry
	default:
		return callReplay
	}
}

// HopelessReasons are the reasons that neither time nor the broker can change: an event that died for one of them dies
// again unless its type's definition or the publisher has changed.
func HopelessReasons() []string {
	return []string{string(outbox.ReasonInvalidPayload), string(outbox.ReasonAggregateMismatch), string(outbox.ReasonMessageTooLarge)}
}

// Hopeless reports whether an event that died for this reason must die again as it is stored.
func Hopeless(reason string) bool { return slices.Contains(HopelessReasons(), reason) }

// CountReasons counts dead letters by the reason they died for.
func (s *Store) CountReasons(ctx context.Context, ids []string) (map[string]int64, error) {
	rows, err := s.db.Query(ctx, countReasons, ids)
	if err != nil {
		return nil, fmt.Errorf("count dead letters by reason: %w", err)
	}
	counts := map[string]int64{}
	var reason string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&reason, &n}, func() error { counts[reason] = n; return nil })
	if err != nil {
		return nil, fmt.Errorf("count dead letters by reason: %w", err)
	}
	return counts, nil
}
