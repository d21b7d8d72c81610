package dispatch

import (
	"math/rand/v2"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// fault is a kind of trouble the simulation makes.
type fault string

const (
	storeError     fault = "store: error before the effect"
	storeReplyLost fault = "store: committed, reply lost"
	storeAborted   fault = "store: transaction aborted at its commit"
	storeSlow      fault = "store: slow"
	storeHang      fault = "store: no answer"
	databaseAway   fault = "database away"
	storeHeadSlow  fault = "store: the walk from the head takes too long"

	publishError      fault = "publish: error of some class"
	publishPartly     fault = "publish: one message fails"
	publishReplyLost  fault = "publish: stored, reply lost"
	publishSlow       fault = "publish: slow"
	publishHang       fault = "publish: no answer"
	publishStoredLate fault = "publish: stored after the client gave up"
	publishUnsent     fault = "publish: its turn does not come"
	probeError        fault = "probe: error of some class"
	brokerAway        fault = "broker away"
	topicForbidden    fault = "topic misconfigured"
	topicRefuses      fault = "topic refuses every message"

	processCrash  fault = "publisher crashes"
	processFreeze fault = "publisher stands still"
	processStop   fault = "publisher told to stop"

	rowRolledBack fault = "producer rolls back"
	rowLate       fault = "producer commits late"
	rowRepeated   fault = "producer repeats a commit whose reply was lost"
	rowUnfit      fault = "row that can never be sent"
	rowRejected   fault = "row the broker rejects"
	rowStubborn   fault = "row the broker cannot store for now"
	operatorPlay  fault = "operator replays"
	hintLost      fault = "hint lost"
)

var allFaults = []fault{
	storeError, storeReplyLost, storeAborted, storeSlow, storeHang, databaseAway,
	publishError, publishPartly, publishReplyLost, publishSlow, publishHang, publishStoredLate, probeError, brokerAway, topicForbidden,
	processCrash, processFreeze, processStop,
	rowRolledBack, rowLate, rowRepeated, rowUnfit, rowRejected, rowStubborn, operatorPlay, hintLost,
	publishUnsent, topicRefuses, storeHeadSlow,
}

// usual is how often a fault happens when a seed has chosen it: per call, per
// row, or, for what lasts a while, per second.
var usual = map[fault]float64{
	databaseAway: 0.05, brokerAway: 0.12, topicForbidden: 0.04, topicRefuses: 0.06, storeHeadSlow: 0.05,
	processCrash: 0.1, processFreeze: 0.07, processStop: 0.15, operatorPlay: 0.3,
	rowRolledBack: 0.2, rowLate: 0.15, rowRepeated: 0.1, rowUnfit: 0.05, rowRejected: 0.05, rowStubborn: 0.04,
	publishError: 0.06, publishReplyLost: 0.06, publishSlow: 0.08, publishHang: 0.06, probeError: 0.1,
	hintLost: 0.3, publishStoredLate: 0.5,
}

const usualPerCall = 0.03

// simPlan is what a seed decides before the start.
type simPlan struct {
	publishers int
	// chaos is how long there are faults. Afterwards everything must come to
	// rest within the lease and rest.
	chaos time.Duration
	rows  int
	// ordered is the share of transactions with an ordering key, of so many keys.
	ordered float64
	keys    int
	cfg     Config
	rate    map[fault]float64
	// policy is the catalogue's for the type red.
	policy wire.Policy
	// skew is how far the database's clock is from the publishers'.
	skew time.Duration
}

// policyFor is a policy of every second seed, so that the others are as they were.
func policyFor(seed uint64) (p wire.Policy) {
	r := rand.New(rand.NewPCG(seed, 0x706f6c696379))
	if seed%2 == 1 {
		return p
	}
	p.MaxAttempts = r.IntN(5) // 0: the publisher's
	if r.IntN(2) == 0 {
		p.ExpiresAfter = time.Duration(1+r.IntN(20)) * time.Second
	}
	if r.IntN(2) == 0 {
		p.BackoffMax = time.Duration(1+r.IntN(4)) * time.Second
	}
	return p
}

// attempts is how often a row is tried.
func (p simPlan) attempts(row *memRow) int {
	if row.EventType == "red" && p.policy.MaxAttempts > 0 {
		return p.policy.MaxAttempts
	}
	return p.cfg.MaxAttempts
}

// tooLate reports whether a row that was read at that time may not be sent any more.
func (p simPlan) tooLate(row *memRow, readAt time.Time) bool {
	return row.EventType == "red" && p.policy.ExpiresAfter > 0 && readAt.Sub(row.Since) >= p.policy.ExpiresAfter
}

// rest is what invariant I9 allows after the last fault, beyond the lease.
const rest = 10 * time.Second

func planFor(r *rand.Rand) simPlan {
	between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo))) }
	p := simPlan{
		publishers: 1 + r.IntN(4),
		chaos:      between(10*time.Second, 40*time.Second),
		rows:       30 + r.IntN(120),
		rate:       map[fault]float64{},
		skew:       between(-10*time.Minute, 10*time.Minute),
	}
	p.ordered, p.keys = []float64{0, 0.4, 0.8, 1}[r.IntN(4)], 1+r.IntN(6)
	publish := between(500*time.Millisecond, 3*time.Second)
	settle := between(200*time.Millisecond, 2*time.Second)
	p.cfg = Config{
		BatchSize: 1 + r.IntN(20), Workers: 1 + r.IntN(3), Settlers: 1 + r.IntN(2),
		PollInterval:   between(50*time.Millisecond, 500*time.Millisecond),
		MaxAttempts:    3 + r.IntN(8),
		PublishTimeout: publish, SettleTimeout: settle,
		Lease:           publish + settle + between(500*time.Millisecond, 5*time.Second),
		ShutdownTimeout: between(300*time.Millisecond, 3*time.Second),
		Backoff:         wire.Backoff{Min: between(50*time.Millisecond, time.Second), Max: between(time.Second, 4*time.Second)},
		Names:           memNames("red", "blue"),
	}
	// Every seed leaves some faults out: what a fault hides, its absence shows.
	for _, f := range allFaults {
		often := usual[f]
		if often == 0 {
			often = usualPerCall
		}
		if r.IntN(100) < 60 {
			p.rate[f] = often * (0.2 + 1.6*r.Float64())
		}
	}
	return p
}
