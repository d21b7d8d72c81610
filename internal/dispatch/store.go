package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Key names a row as one claim got it. Together with the publisher's id it is
// the fence: the same publisher claiming the row again gets another lease, so
// it cannot settle for its former self.
type Key struct {
	ID string
	// Seq is the row's place in the outbox, by which its lease names it.
	Seq int64
	// Lease is the lease that the row was claimed with.
	Lease int64
}

// Claimed is a row under lease, with what publishing it needs.
type Claimed struct {
	Key
	EventType     string
	AggregateType string
	AggregateID   string
	// Payload is the row's payload_json as PostgreSQL prints it.
	Payload []byte
	Headers json.RawMessage
	// Printed is the size of both, also where they are left out.
	Printed   int64
	CreatedAt time.Time
	// Since is from when on it was to be published, and ReadAt when it was claimed, both by the
	// database's clock.
	Since, ReadAt time.Time
	// AttemptCount counts failed attempts.
	AttemptCount int
	// LastError is why the latest of them failed.
	LastError string
	// Expired: the latest of them was a lease that expired without a verdict.
	Expired bool
	// MaxAttempts overrides the configured maximum for this row; 0 does not.
	MaxAttempts int
	// TenantID and DedupeKey are empty where the row has none.
	Namespace, TenantID, DedupeKey string
	// Notes is what the publisher has to say about a row that it sends all the same.
	Notes Notes
	// OrderingKey, unless it is empty, is what the row keeps its order in.
	OrderingKey string
	// CopyOf is the broker's id of the message that the row was published as before.
	CopyOf string
	// Unreadable is why the row's contents cannot be read. Such a row has neither
	// payload nor headers and can only be dead-lettered.
	Unreadable error
}

// Notes is what is anomalous about an event that is published nevertheless.
type Notes struct {
	// OtherID: the envelope's eventId is not the row's id.
	OtherID bool
	// ExtraFields is how many members of data the catalogue does not name.
	ExtraFields int
}

// Scope narrows a publisher to a part of the outbox. Zero values do not
// narrow anything.
type Scope struct {
	Namespace string
	TenantID  string
	Types     outbox.Types
}

// ClaimParams asks for the oldest due rows.
type ClaimParams struct {
	// AfterSeq skips rows the caller has no reason to look at again. It is an
	// optimisation only; 0 sweeps the whole backlog.
	AfterSeq int64
	// ThroughSeq, unless it is 0, ends the walk there.
	ThroughSeq int64
	// Limit is never exceeded, whatever the plan.
	Limit int
	// MaxBytes bounds what the claimed rows are when printed, give or take a
	// quarter; one row is always taken. MaxRowBytes bounds each: a row beyond it
	// comes without its contents, as unreadable.
	MaxBytes, MaxRowBytes int64
	Lease                 time.Duration
	// KeyedAfter is behind which seq a waiting row with an ordering key is told of.
	KeyedAfter int64
	// Only, when not empty, are the event types to take.
	Only outbox.Types
	// Except are event types to leave alone: their topic is unreachable
	// or misconfigured, or has enough in flight, or they are left to publishers
	// with another catalogue.
	Except outbox.Types
	// crowded are the topics that are left out only because they have enough in flight.
	crowded []string
	// Paused is what an operator has paused, as outbox.Chosen compares it with rows.
	Paused []string
	// Sweep: the claim looks below the hint, and ends leases whose time is over.
	Sweep bool
	// KeepLeases: it ends none all the same, another has just looked for those.
	KeepLeases bool

	// Ordered asks for the rows with an ordering key whose turn it is, key by key.
	// Without it rows with a key are left alone. What follows is for such claims;
	// with Sweep they also leave out keys that are blocked by a dead row, which
	// costs a walk over the dead rows that hold back others.
	Ordered bool
	// Busy are keys to leave out: this publisher is sending them.
	Busy []string
	// Look are keys to look at whatever AfterSeq says.
	Look []string
	// Window is how many due rows the claim looks at, in search of keys.
	Window int
}

// most is how many rows of one key a claim takes, so that one key does not take
// them all.
func (p ClaimParams) most() int { return max(p.Limit/4, 1) }

// endsLeases reports whether the claim ends leases whose time is over. Those are looked for
// where rows are: from the head.
func (p ClaimParams) endsLeases() bool { return (p.Sweep || p.AfterSeq == 0) && !p.KeepLeases }

// Claim is what a claim has found.
type Claim struct {
	// Rows are in seq order. Of an ordering key they are the first rows that are
	// neither published nor passed, without a gap.
	Rows []Claimed
	// Full: the claim ended at one of its limits, so that there may be more.
	Full bool
	// Beaten: of the rows that a full claim locked another publisher had leased some. It has all others.
	Beaten bool
	// Keyed: an ordered claim may have something to look at, a row behind KeyedAfter
	// that is neither published nor dead. An ordered claim does not tell.
	Keyed bool
	// SeenTo is the largest seq that an ordered claim looked at, and Seen how many rows.
	SeenTo int64
	Seen   int
}

// Published is a row the broker has acknowledged.
type Published struct {
	Key
	MessageID string
}

// Failed is a row that is to be tried again after Delay.
type Failed struct {
	Key
	Error string
	// Delay counts from the database's now.
	Delay time.Duration
	// Free leaves attempt_count alone: the failure was not the row's.
	Free bool
}

// Dead is a row that will not be tried again.
type Dead struct {
	Key
	Reason      outbox.DeadReason
	Error       string
	Topic       string
	Fingerprint string
	// Attempted: the row was offered to the broker, and lost an
	// attempt, before it died.
	Attempted bool
}

// Verdicts is what became of claimed rows.
type Verdicts struct {
	Published []Published
	Failed    []Failed
	Dead      []Dead
	// Released rows were never handed to the broker. They are due again at
	// once, and are not written for that.
	Released []Key
}

// Len is the number of rows with a verdict.
func (v Verdicts) Len() int {
	return len(v.Published) + len(v.Failed) + len(v.Dead) + len(v.Released)
}

func (v *Verdicts) add(w Verdicts) {
	if v.Len() == 0 {
		*v = w
		return
	}
	v.Published = append(v.Published, w.Published...)
	v.Failed = append(v.Failed, w.Failed...)
	v.Dead = append(v.Dead, w.Dead...)
	v.Released = append(v.Released, w.Released...)
}

// Settled counts the rows each verdict changed. Fewer than asked for means
// that a lease was lost: another publisher owns those rows now.
type Settled struct {
	Published, Failed, Dead, Released int
}

// Len is the number of rows that were settled.
func (s Settled) Len() int { return s.Published + s.Failed + s.Dead + s.Released }

// ErrRefused marks a settle the database understood and refused, so that
// repeating it unchanged is pointless.
var ErrRefused = errors.New("refused by the database")

// Store is the outbox table as one dispatcher uses it.
type Store interface {
	// Claim leases the oldest due rows and commits before it reads them, so that no
	// transaction is open while anything is published. While a row is leased, failed,
	// hidden by a filter or dead, nothing that follows it in its ordering key is
	// leased to anyone.
	Claim(ctx context.Context, p ClaimParams) (Claim, error)
	// Due reports, without locking anything, whether Claim would find a row, and
	// keyed as Claim does. Of an ordered claim it does not tell whether it is the
	// row's turn.
	Due(ctx context.Context, p ClaimParams) (due, keyed bool, err error)
	// Held counts the rows that are leased to this publisher, and returns when the
	// last of these leases ends.
	Held(ctx context.Context) (rows int, until time.Time, err error)
	// LastSeq is the largest seq of a row that is neither published nor dead. It
	// does not walk over other rows.
	LastSeq(ctx context.Context) (int64, error)
	// Settle records verdicts, all in one transaction, on the rows that the lease they
	// were claimed with still names, and touches no others. The same transaction takes
	// them out of it.
	// Repeating it after an error is safe: a row the first try settled is
	// not in that lease any more.
	Settle(ctx context.Context, v Verdicts) (Settled, error)
}
