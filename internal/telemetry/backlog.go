package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/wait"
)

const (
	sampleEvery   = 10 * time.Second
	sampleTimeout = 30 * time.Second
	// sampleShare bounds what counting the backlog may cost: 1 in 50.
	sampleShare = 50
	// scrapePatience is how long a scrape waits for the figures it asks for.
	scrapePatience = 2 * time.Second
)

// Backlog shows the figures that only a query can tell. The query walks over all that
// waits, so it runs only when somebody scrapes; many scrapers cost no more than one, and
// the longer it takes the rarer it gets.
type Backlog struct {
	// asks has who waits for a sample, which Run answers by closing the channel.
	asks    chan chan struct{}
	take    func(context.Context) (stats.Sample, error)
	current func() Current
	trouble func(doing string, err error)

	mu     sync.Mutex
	last   stats.Sample
	at     time.Time
	descs  [8]*prometheus.Desc
	flight [3]*prometheus.Desc
	open   *prometheus.Desc
	// consumers are by the consumer's name, which operators choose.
	consumers [3]*prometheus.Desc
}

// Current is what a publisher knows of itself without a query.
type Current struct {
	// Events and Bytes are those in flight.
	Events int
	Bytes  int64
	// StoodDown is how many event types it leaves alone because an event does not fit its catalogue.
	StoodDown int
}

// NewBacklog registers the figures.
func NewBacklog(r prometheus.Registerer, take func(context.Context) (stats.Sample, error), current func() Current, trouble func(string, error)) *Backlog {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, nil, nil)
	}
	b := &Backlog{asks: make(chan chan struct{}), take: take, current: current, trouble: trouble,
		descs: [8]*prometheus.Desc{
			desc("backlog_events", "Events neither published nor dead nor parked nor scheduled."),
			desc("oldest_unpublished_age_seconds", "Age of the oldest event neither published nor dead nor parked nor scheduled; of one that was scheduled, since its time."),
			desc("max_attempts_events", "Unpublished events that have no attempts left: waiting ones, and dead ones with an open dead letter."),
			desc("parked_events", "Events that wait behind a dead one of their ordering key."),
			desc("blocked_keys", "Ordering keys that stand still behind a dead event."),
			desc("claimable_events", "Events that could be claimed now, counted up to 100000: what more publishers would help with."),
			desc("scheduled_events", "Events that wait for their time."),
			desc("pauses", "Pauses in force: topics, types, tenants and namespaces that operators have paused."),
		},
		flight: [3]*prometheus.Desc{
			desc("in_flight_events", "Events of this publisher between claim and settle."),
			desc("in_flight_bytes", "Payload bytes of this publisher between claim and settle."),
			desc("stood_down_types", "Event types that this publisher leaves alone: an event does not fit its catalogue, and the recorded one says something else."),
		},
		open: prometheus.NewDesc(namespace+"_dlq_open", "Open dead letters.", []string{"reason"}, nil),
	}
	of := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_consumer_"+name, help, []string{"consumer"}, nil)
	}
	b.consumers = [3]*prometheus.Desc{
		of("failing_events", "Events that a consumer fails to handle, and tries again."),
		of("gave_up_events", "Events that a consumer failed to handle, and does not try again by itself."),
		of("age_seconds", "Age of the oldest event that a consumer's workers handled in the last seconds; 0 while they handle none."),
	}
	r.MustRegister(b)
	return b
}

// Run samples when it is asked to, until ctx ends.
func (b *Backlog) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case asked := <-b.asks:
			rest := b.sample(ctx)
			close(asked)
			if wait.For(ctx, rest) != nil {
				return
			}
		}
	}
}

// ask has a sample taken and waits for it, unless the last one is recent or a sample is under way.
func (b *Backlog) ask() {
	asked := make(chan struct{})
	select {
	case b.asks <- asked:
		select {
		case <-asked:
		case <-time.After(scrapePatience):
		}
	default:
	}
}

func (b *Backlog) sample(ctx context.Context) (wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	began := time.Now()
	s, err := b.take(ctx)
	took := time.Since(began)
	switch {
	case err == nil:
		b.mu.Lock()
		b.last, b.at = s, began
		b.mu.Unlock()
	case !errors.Is(ctx.Err(), context.Canceled):
		b.trouble("sample the backlog", err)
	}
	return max(sampleEvery, sampleShare*took)
}

// Describe implements prometheus.Collector.
func (b *Backlog) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range b.descs {
		ch <- d
	}
	for _, d := range b.flight {
		ch <- d
	}
	for _, d := range b.consumers {
		ch <- d
	}
	ch <- b.open
}

// Collect implements prometheus.Collector. Figures that were never taken are
// absent: zero would be a lie that looks like health.
func (b *Backlog) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	now := b.current()
	gauge(b.flight[0], float64(now.Events))
	gauge(b.flight[1], float64(now.Bytes))
	gauge(b.flight[2], float64(now.StoodDown))
	b.ask()
	b.mu.Lock()
	s, at := b.last, b.at
	b.mu.Unlock()
	if at.IsZero() {
		return
	}
	age := s.OldestAgeSeconds
	if s.Backlog > 0 {
		age += time.Since(at).Seconds()
	}
	gauge(b.descs[0], float64(s.Backlog))
	gauge(b.descs[1], age)
	gauge(b.descs[2], float64(s.AtMaxAttempts))
	gauge(b.descs[3], float64(s.Parked))
	gauge(b.descs[4], float64(s.BlockedKeys))
	gauge(b.descs[5], float64(s.Claimable))
	gauge(b.descs[6], float64(s.Scheduled))
	gauge(b.descs[7], float64(s.Pauses))
	for _, reason := range outbox.DeadReasons() {
		ch <- prometheus.MustNewConstMetric(b.open, prometheus.GaugeValue, float64(s.DLQOpen[reason]), reason)
	}
	for _, c := range s.Consumers {
		var age float64
		if c.LagSeconds != nil {
			age = *c.LagSeconds
		}
		for i, v := range []float64{float64(c.Failing), float64(c.GaveUp), age} {
			ch <- prometheus.MustNewConstMetric(b.consumers[i], prometheus.GaugeValue, v, c.Consumer)
		}
	}
}
