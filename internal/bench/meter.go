package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/dispatch"
)

// meter watches dispatchers from inside.
type meter struct {
	keepAcks bool

	mu         sync.Mutex
	claims     timing
	settles    timing
	lost       int64
	lastSettle time.Time
	acks       map[uuid.UUID]time.Time
	troubles   int
}

var _ dispatch.Observer = (*meter)(nil)

func newMeter(keepAcks bool) *meter {
	m := &meter{keepAcks: keepAcks}
	m.reset()
	return m
}

// reset starts a new phase of the same run.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims, m.settles = newTiming(), newTiming()
	if m.acks == nil {
		m.acks = map[uuid.UUID]time.Time{}
	}
}

// Claimed implements outbox.Observer. Claims that found nothing cost nothing per
// row and are left out.
func (m *meter) Claimed(r dispatch.ClaimReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Err == nil && r.Rows > 0 {
		m.claims.add(r.Rows, r.Took)
	}
}

// Published implements outbox.Observer.
func (m *meter) Published(_ string, _ time.Duration, attempts []dispatch.Attempt) {
	if !m.keepAcks {
		return
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range attempts {
		if a.Outcome == dispatch.OutcomePublished {
			if id, err := uuid.Parse(a.Row.ID); err == nil {
				m.acks[id] = now
			}
		}
	}
}

// Settled implements outbox.Observer.
func (m *meter) Settled(r dispatch.SettleReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost += int64(r.Lost)
	if r.Err == nil {
		m.settles.add(r.Rows, r.Took)
		m.lastSettle = time.Now()
	}
}

// TopicChanged implements outbox.Observer.
func (m *meter) TopicChanged(dispatch.TopicStatus) {}

// Trouble implements outbox.Observer. The dispatcher gets over it; a reader of the
// figures should know.
func (m *meter) Trouble(string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.troubles++
}

// costs reports what claiming and settling took.
func (m *meter) costs() (claim, settle *Cost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claims.cost(), m.settles.cost()
}

// mishaps reports settles that came too late and errors the dispatcher got over.
func (m *meter) mishaps() (lost int64, troubles int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost, m.troubles
}

// timing sums up one kind of statement.
type timing struct {
	rows  int64
	spent time.Duration
	hist  *hdrhistogram.Histogram
}

func newTiming() timing { return timing{hist: newHistogram()} }

func (t *timing) add(rows int, took time.Duration) {
	t.rows += int64(rows)
	t.spent += took
	record(t.hist, took)
}

func (t *timing) cost() *Cost {
	c := &Cost{Statements: t.hist.TotalCount(), Rows: t.rows, Duration: percentiles(t.hist)}
	if t.rows > 0 {
		c.MicrosPerRow = float64(t.spent.Microseconds()) / float64(t.rows)
	}
	return c
}

// Histograms count microseconds up to an hour with three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue())) // in range
}

func percentiles(h *hdrhistogram.Histogram) Percentiles {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return Percentiles{Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000}
}
