package check

import "github.com/outboxctl/outboxctl/lab/history"

// changeKind is what a change of a row was.
type changeKind int

const (
	claim     changeKind = iota // a lease begins
	published                   // settled: the broker has it
	failed                      // settled: to be tried again, charged or not
	died                        // settled: dead
	released                    // settled: given back untouched
	replayed                    // an operator put a dead row back
	deleted
	other // what none of the statements does
)

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
	case !after.Published.IsZero() && before.Published.IsZero():
		return published
	case !after.Dead.IsZero() && before.Dead.IsZero():
		return died
	case ended && after.Attempts == before.Attempts && after.LastError == before.LastError && after.Next.Equal(before.Next):
		return released
	case after.Lease.By == "" && after.Published.IsZero() && after.Dead.IsZero():
		return failed
	default:
		return other
	}
}

func (k changeKind) settles() bool {
	return k == published || k == failed || k == died || k == released
}

func (k changeKind) String() string {
	switch k {
	case claim:
		return "claim"
	case published:
		return "publish"
	case failed:
		return "failure"
	case died:
		return "death"
	case released:
		return "release"
	case replayed:
		return "replay"
	case deleted:
		return "delete"
	default:
		return "change"
	}
}
