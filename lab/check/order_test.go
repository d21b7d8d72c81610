package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/lab/check"
	"github.com/outboxctl/outboxctl/lab/history"
)

func orderCorruptions() []corruption {
	return []corruption{
		{"stored before an earlier event of its key", "I5", "plain-1", func(h *history.History) {
			first, second := arrivalOf(h, "plain-0"), arrivalOf(h, "plain-1")
			first.Order, second.Order = second.Order, first.Order
		}},
		{"sent with another ordering key", "I5", "plain-1", func(h *history.History) { arrivalOf(h, "plain-1").OrderingKey = "default/b" }},
		{"sent without its ordering key", "I5", "plain-1", func(h *history.History) { arrivalOf(h, "plain-1").OrderingKey = "" }},
		{"sent in one request with another key", "I5", plain, func(h *history.History) {
			arrivalOf(h, plain).Request = arrivalOf(h, "plain-2").Request
		}},
		{"a follower was charged", "I11", "plain-1", func(h *history.History) {
			claim := changeOf(h, "plain-1", 0)
			claim.TxID = changeOf(h, "plain-0", 0).TxID // one run
			charge(h, "plain-1", 0, 1)
		}},
	}
}

// A key goes on behind an event that was discarded, and not behind one that nobody has seen.
func TestOrderBehindAnEventThatWasNeverStored(t *testing.T) {
	t.Parallel()
	for _, discarded := range []bool{true, false} {
		b := newBuilder()
		b.transaction("t", "plain", history.Committed, true, history.Intent{EventID: "head", Type: handled, Topic: "domain", Expect: history.Die}, deliver("follower"))
		for _, id := range []string{"head", "follower"} {
			b.row(id).OrderingKey = "default/a"
		}
		b.claim("head", "publisher-1")
		b.die("head", "publisher-1")
		if discarded {
			b.change("head", "operator", time.Second, func(at time.Time, s *history.State) { s.Passed = at })
			b.discard("head")
		}
		b.plain("follower", "publisher-1")
		b.h.Run.MinEvents, b.h.Run.MinFaults, b.h.Run.NeedFaults, b.h.Run.NeedCrashes = 0, 0, nil, nil
		report := check.Check(b.h)
		require.Equal(t, 2, report.Checked["I5"])
		broken := false
		for _, v := range report.Violations {
			broken = broken || v.Invariant == "I5" && v.EventID == "follower"
		}
		require.Equal(t, !discarded, broken, "%v", report.Violations)
	}
}
