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

// dieInOrder builds a run in which the head of a key dies, and what operators and publishers do after that.
func dieInOrder(t *testing.T, meanwhile func(b *builder)) (broken []string, report check.Report) {
	t.Helper()
	b := newBuilder()
	b.transaction("t", "plain", history.Committed, true, history.Intent{EventID: "head", Type: handled, Topic: "domain", Expect: history.Die},
		deliver("follower"), deliver("last"))
	for _, id := range []string{"head", "follower", "last"} {
		b.row(id).OrderingKey = "default/a"
	}
	b.claim("head", "publisher-1")
	b.die("head", "publisher-1")
	meanwhile(b)
	b.h.Run.MinEvents, b.h.Run.MinFaults, b.h.Run.NeedFaults, b.h.Run.NeedCrashes = 0, 0, nil, nil
	report = check.Check(b.h)
	for _, v := range report.Violations {
		if v.Invariant == "I5" {
			broken = append(broken, v.EventID+" "+v.Text)
		}
	}
	return broken, report
}

// pass is a discard of the head with what it does to the key.
func (b *builder) pass(id string) {
	b.change(id, "operator", time.Second, func(at time.Time, s *history.State) { s.Passed = at })
	b.discard(id)
}

// hold is a restore.
func (b *builder) hold(id string) {
	b.change(id, "operator", time.Second, func(_ time.Time, s *history.State) { s.Passed = time.Time{} })
	b.letter(id).State = "open"
	b.audit("dlq.restore", id)
}

// after lets the next thing of an event happen when another's last one has, and a while later.
func (b *builder) after(id, other string, while time.Duration) { b.at[id] = b.at[other].Add(while) }

func TestOrderBehindADeadEvent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		meanwhile func(b *builder)
		want      string // of the violation; empty: none
	}{
		{"nothing follows", func(*builder) {}, ""},
		{"sent although it is dead", func(b *builder) { b.plain("follower", "publisher-1") }, "follower was first stored at 12:00:00.025 although head"},
		{"sent after it was discarded", func(b *builder) {
			b.pass("head")
			b.after("follower", "head", time.Second)
			b.plain("follower", "publisher-1")
		}, ""},
		{"sent before it was discarded", func(b *builder) {
			b.plain("follower", "publisher-1")
			b.pass("head")
		}, "follower was first stored at 12:00:00.025 although head"},
		{"sent in the run of the dead one", func(b *builder) {
			b.claim("follower", "publisher-1")
			changeOf(b.h, "follower", 0).TxID = changeOf(b.h, "head", 0).TxID
			b.publish("follower", "publisher-1")
			b.pass("head")
		}, "follower was first stored at 12:00:00.025 although head"},
		{"claimed again while it is restored", func(b *builder) {
			b.pass("head")
			b.after("follower", "head", time.Second)
			b.plain("follower", "publisher-1")
			b.hold("head")
			b.after("last", "head", 3*time.Second)
			b.plain("last", "publisher-1")
		}, "last was claimed by publisher-1 at 12:00:05.040 although head, which is before it in default/a, was neither published nor discarded"},
		{"claimed as it is restored", func(b *builder) {
			b.pass("head")
			b.hold("head")
			b.after("follower", "head", time.Millisecond)
			b.plain("follower", "publisher-1")
		}, ""},
		{"claimed before it is restored, by a claim that took long", func(b *builder) {
			b.pass("head")
			b.hold("head")
			b.after("follower", "head", 3*time.Second)
			b.claim("follower", "publisher-1")
			ch := changeOf(b.h, "follower", 0)
			ch.After.Lease.Until = ch.At.Add(lease - 3*time.Second)
			b.publish("follower", "publisher-1")
		}, ""},
		{"claimed while it is replayed", func(b *builder) {
			b.pass("head")
			b.hold("head")
			b.replay("head")
			b.after("follower", "head", 3*time.Second)
			b.plain("follower", "publisher-1")
		}, "follower was claimed by publisher-1"},
		{"replayed, published, followed", func(b *builder) {
			b.replay("head")
			b.plain("head", "publisher-2")
			b.after("follower", "head", time.Second)
			b.plain("follower", "publisher-1")
		}, ""},
		{"discarded, the key stands still", func(b *builder) { b.discard("head") }, "head was discarded 1 times, its ordering key was let go on 0 times"},
		{"restored, the key goes on", func(b *builder) {
			b.pass("head")
			b.audit("dlq.restore", "head")
		}, "head was restored 1 times, its ordering key was held again 0 times"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			broken, report := dieInOrder(t, tt.meanwhile)
			require.Equal(t, 3, report.Checked["I5"])
			if tt.want == "" {
				require.Empty(t, broken)
				return
			}
			require.Len(t, broken, 1)
			require.Contains(t, broken[0], tt.want)
		})
	}
}

// What happened to keys is counted, and a run in which too little did proves nothing.
func TestOrderFigures(t *testing.T) {
	t.Parallel()
	meanwhile := func(b *builder) {
		b.replay("head")
		b.claim("head", "publisher-2")
		b.claimAfter("head", "publisher-3", lease+time.Second) // the second one has died
		b.die("head", "publisher-3")
		b.pass("head")
		b.hold("head")
		b.pass("head")
		b.after("follower", "head", time.Second)
		b.plain("follower", "publisher-1")
	}
	broken, report := dieInOrder(t, meanwhile)
	require.Empty(t, broken)
	require.Equal(t, map[string]int{check.OrderDeaths: 2, check.OrderReplays: 1, check.OrderDiscards: 2, check.OrderRestores: 1, check.OrderExpired: 1,
		check.OrderParked: 1}, report.Figures.Order)
	_, report = dieInOrder(t, func(b *builder) {
		meanwhile(b)
		b.h.Run.MinOrder = map[string]int{check.OrderReplays: 1, check.OrderDiscards: 3}
	})
	require.Equal(t, []string{"ordering keys: 2 discards, needed are 3"}, report.Invalid)
}

// Events whose producers do not lock have no order to keep.
func TestLooseKeysAreCountedApart(t *testing.T) {
	t.Parallel()
	broken, report := dieInOrder(t, func(b *builder) {
		b.h.Run.LooseKeys = "default/"
		b.plain("follower", "publisher-1")
	})
	require.Empty(t, broken)
	require.Zero(t, report.Checked["I5"])
	require.Equal(t, 3, report.Figures.Order["loose events"])
}
