package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/lab/check"
	"github.com/outboxctl/outboxctl/lab/history"
)

// What looks odd and is in order must not be reported: a checker that cries wolf is soon ignored.
func TestAllowedOddities(t *testing.T) {
	t.Parallel()
	handledAgain := func(h *history.History, consumer string) {
		first := find(h.Handled, func(r *history.Handled) bool { return r.Consumer == consumer && r.EventID == plain })
		h.Handled = append(h.Handled, history.Handled{At: first.At.Add(time.Second), Consumer: consumer, EventID: plain})
	}
	noRedisFault := func(h *history.History) {
		drop(&h.Run.NeedFaults, func(kind *string) bool { return *kind == "redis_flush" })
		find(h.Faults, func(f *history.Fault) bool { return f.Kind == "redis_flush" }).Kind = "latency"
		find(h.Faults, func(f *history.Fault) bool { return f.Target == "redis" }).Target = "publisher-2"
	}
	tests := []struct {
		name  string
		alter func(h *history.History)
	}{
		{"handled again around a Redis fault", func(h *history.History) { handledAgain(h, guarded) }},
		{"handled again around a kill of the consumer", func(h *history.History) {
			noRedisFault(h)
			h.Faults = append(h.Faults, history.Fault{Kind: "sigkill", Target: guarded, From: start(), To: start()})
			handledAgain(h, guarded)
		}},
		{"handled again behind the inbox", func(h *history.History) {
			noRedisFault(h)
			handledAgain(h, inbox)
		}},
		{"stored and reported as failed, its way to the broker cut", func(h *history.History) {
			storedThenFailed(h, history.Fault{Kind: "network.reset", Target: "publisher-1/broker"})
		}},
		{"stored and reported as failed, the broker away", func(h *history.History) {
			storedThenFailed(h, history.Fault{Kind: "broker.away"})
		}},
		{"stored and reported as failed, the reply lost", func(h *history.History) {
			storedThenFailed(h, history.Fault{Kind: "broker.error"})
			find(h.Arrivals, func(a *history.Arrival) bool { return a.MessageID == "early" }).ReplyLost = true
		}},
		{"sent by a publisher that had been stopped and overtaken", func(h *history.History) {
			h.Faults = append(h.Faults, history.Fault{Kind: "publisher.stop", Target: "publisher-1", From: changeOf(h, twice, 0).At, To: changeOf(h, twice, 2).At})
			arrivalOf(h, twice).At = changeOf(h, twice, 2).At.Add(soon)
		}},
		{"given back after it was refused with a neighbour", func(h *history.History) {
			first := again(h, givenBack, "early")
			first.At, first.Stored, first.Code = changeOf(h, givenBack, 0).At.Add(time.Millisecond), false, "InvalidArgument"
		}},
		{"a line in the ledger with its id", func(h *history.History) {
			find(h.Ledger, func(l *history.LedgerRow) bool { return l.Line == "line-1" }).EventID = fromLine
		}},
		{"a producer's command that was cut", func(h *history.History) {
			h.Commands = append(h.Commands, history.Command{At: start(), Ended: start(), Verb: "emit", Exit: 1, Stderr: "error: commit: unexpected EOF"})
		}},
		{"failure that charges nothing", func(h *history.History) {
			charge(h, failing, 1, -1)
		}},
		{"death by an attempt", func(h *history.History) { charge(h, written, 1, 1) }},
		{"claim of the very moment the lease ends", func(h *history.History) {
			ch := changeOf(h, twice, 1)
			ch.At = ch.Before.Lease.Until
			ch.After.Lease.Until = ch.At.Add(lease)
		}},
		{"claim that waited for a lock", func(h *history.History) { relet(h, plain, -5*time.Second) }},
		{"a transaction of unknown end that is all there", func(h *history.History) {
			find(h.Transactions, func(tx *history.Transaction) bool { return tx.ID == "t2" }).Outcome = history.Unknown
		}},
		{"a run without demands and without records of processes", func(h *history.History) {
			h.Run.MinFaults, h.Run.NeedCrashes = 0, nil
			h.Processes, h.Resources, h.Stats = nil, nil, nil
		}},
		{"commands that found nothing, came too late or did a part", func(h *history.History) {
			for _, exit := range []int{3, 4, 5, 130} {
				h.Commands = append(h.Commands, history.Command{Verb: "dlq replay", Exit: exit, Stderr: "error: x"})
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := cleanRun()
			tt.alter(h)
			report := check.Check(h)
			require.Empty(t, report.Violations)
			require.Empty(t, report.Invalid)
		})
	}
}

// A message that a replay brought is counted, and is no fault.
func TestReplayExplainsADuplicate(t *testing.T) {
	t.Parallel()
	b := newBuilder()
	b.transaction("t", "plain", history.Committed, true, deliver("e"))
	b.claim("e", "publisher-1")
	b.store("e")
	b.die("e", "publisher-1")
	b.replay("e")
	b.plain("e", "publisher-2")
	b.h.Run.MinEvents, b.h.Run.MinFaults, b.h.Run.NeedFaults, b.h.Run.NeedCrashes = 0, 0, nil, nil
	report := check.Check(b.h)
	require.Empty(t, report.Violations)
	require.Equal(t, map[string]int{"replay": 1}, report.Figures.DuplicatesBy)
}

// The successor of a killed publisher has its name. Of a run it charges the head alone, by which the
// end of the lease is known; without that the holder gave its rows back, and nothing explains a
// second message.
func TestSuccessorExplainsADuplicate(t *testing.T) {
	t.Parallel()
	for _, sweeps := range []bool{true, false} {
		b := newBuilder()
		b.transaction("t", "plain", history.Committed, true, deliver("head"), deliver("follower"))
		for _, id := range []string{"head", "follower"} {
			b.row(id).OrderingKey = "default/a"
			b.claim(id, "publisher-1")
			b.h.Changes[len(b.h.Changes)-1].TxID = 1
		}
		b.store("head")
		b.store("follower")
		for _, id := range []string{"head", "follower"} {
			b.change(id, "publisher-1", lease+time.Second, func(_ time.Time, s *history.State) {
				if id == "head" && sweeps {
					s.Attempts, s.LastError = s.Attempts+1, "lease of publisher "+s.Lease.By+" expired without a verdict"
				}
				s.Lease = history.Lease{}
			}).TxID = 2
		}
		b.plain("head", "publisher-1")
		b.after("follower", "head", time.Second)
		b.plain("follower", "publisher-1")
		b.h.Run.MinEvents, b.h.Run.MinFaults, b.h.Run.NeedFaults, b.h.Run.NeedCrashes = 0, 0, nil, nil
		b.h.Run.MaxInFlight, b.h.Faults = 2, []history.Fault{{Kind: "sigkill", Target: "publisher-2", From: start(), To: start()}}
		report := check.Check(b.h)
		if sweeps {
			require.Empty(t, report.Violations)
			require.Equal(t, map[string]int{"expired lease": 2}, report.Figures.DuplicatesBy)
			continue
		}
		require.Equal(t, map[string]int{"unexplained": 2}, report.Figures.DuplicatesBy)
	}
}
