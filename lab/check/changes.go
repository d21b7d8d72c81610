package check

import (
	"strings"

	"github.com/outboxctl/outboxctl/lab/history"
)

type changeKind int

const (
	claim     changeKind = iota // a lease begins
	published                   // settled: the broker has it
	failed                      // settled: to be tried again, charged or not
	died                        // settled: dead
	released                    // settled: given back untouched, or freed of a lease that ended
	expired                     // charged because its lease ended without a verdict
	replayed                    // an operator put a dead row back
	deleted
	other // what none of the statements does
)

// expiredSuffix ends the error of a row whose lease ended without a verdict.
const expiredSuffix = " expired without a verdict"

// kindOf returns the kind of a statement that changed a row, by what it left.
func kindOf(ch *history.Change) changeKind {
	before, after := &ch.Before, &ch.After
	ended := before.Lease.By != "" && after.Lease.By == ""
	switch {
	case ch.Deleted:
		return deleted
	case isOperator(ch.By):
		if !before.Dead.IsZero() && before.Published.IsZero() && after.Dead.IsZero() {
			return replayed
		}
		return other
	case after.Lease.By != "" && (after.Lease.By != before.Lease.By || !after.Lease.Until.Equal(before.Lease.Until)):
		return claim
	case ended && strings.HasSuffix(after.LastError, expiredSuffix) &&
		after.Attempts > before.Attempts:
		return expired
	case !after.Published.IsZero() && before.Published.IsZero():
		return published
	case !after.Dead.IsZero() && before.Dead.IsZero():
		return died
	case ended && after.Attempts == before.Attempts && after.LastError == before.LastError &&
		after.Next.Equal(before.Next):
		return released
	case after.Lease.By == "" && after.Published.IsZero() && after.Dead.IsZero():
		return failed
	default:
		return other
	}
}

// overtaken reports whether a change took a row from its holder because the lease had ended: by a
// claim of another, which may lease it again. That other may have the name of the holder, who was
// killed; of a run it charges the head alone, and by that one is known.
func (x *index) overtaken(ch *history.Change) bool {
	kind := kindOf(ch)
	return ch.Before.Lease.By != "" && (kind == claim || kind == expired ||
		kind == released && (x.owner[ch.Before.Lease.By] != ch.By || x.ended[sweep{ch.TxID, ch.Before.Lease.By}]))
}

func (k changeKind) settles() bool {
	return k == published || k == failed || k == died || k == released
}

func (k changeKind) String() string {
	return [...]string{
		"claim", "publish", "failure", "death", "release", "expiry", "replay", "delete", "change",
	}[k]
}
