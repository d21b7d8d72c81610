package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/dispatch"
)

// Meter watches dispatchers from inside.
type Meter struct {
	keepAcks bool

	mu         sync.Mutex
	claims     timing
	settles    timing
	lost       int64
	lastSettle time.Time
	acks       map[uuid.UUID]time.Time
	troubles   int
}

var _ dispatch.Observer = (*Meter)(nil)

func newMeter(keepAcks bool) *Meter {
	m := &Meter{keepAcks: keepAcks}
	m.Reset()
	return m
}

// Reset starts a new phase of the same run.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims, m.settles = newTiming(), newTiming()
	if m.acks == nil {
		m.acks = map[uuid.UUID]time.Time{}
	}
}

// Claimed implements dispatch.Observer. Claims that found nothing cost nothing per
// row and are left out.
func (m *Meter) Claimed(r dispatch.ClaimReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Err == nil && r.Rows > 0 {
		m.claims.add(r.Rows, r.Took)
	}
}

// Published implements dispatch.Observer.
func (m *Meter) Published(_ string, _ time.Duration, attempts []dispatch.Attempt) {
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

// Settled implements dispatch.Observer.
func (m *Meter) Settled(r dispatch.SettleReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost += int64(r.Lost)
	if r.Err == nil {
		m.settles.add(r.Rows, r.Took)
		m.lastSettle = time.Now()
	}
}

// TopicChanged implements dispatch.Observer.
func (m *Meter) TopicChanged(dispatch.TopicReport) {}

// Trouble implements dispatch.Observer. The dispatcher gets over it; a reader of the
// figures should know.
func (m *Meter) Trouble(string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.troubles++
}

// Costs reports what claiming and settling took.
func (m *Meter) Costs() (claim, settle *Cost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claims.cost(), m.settles.cost()
}

// mishaps reports settles that came too late and errors the dispatcher got over.
func (m *Meter) mishaps() (lost int64, troubles int) {
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

func newTiming() timing { return timing{hist: NewHistogram()} }

func (t *timing) add(rows int, took time.Duration) {
	t.rows += int64(rows)
	t.spent += took
	Record(t.hist, took)
}

func (t *timing) cost() *Cost {
	c := &Cost{Statements: t.hist.TotalCount(), Rows: t.rows, Duration: PercentilesOf(t.hist)}
	if t.rows > 0 {
		c.MicrosPerRow = float64(t.spent.Microseconds()) / float64(t.rows)
	}
	return c
}

// NewHistogram counts microseconds up to an hour with three digits.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
}

// Record adds a time.
func Record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue())) // in range
}

// PercentilesOf sums a histogram up.
func PercentilesOf(h *hdrhistogram.Histogram) Percentiles {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return Percentiles{Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000}
}
