package consumer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What became of a message, as the label "outcome" of
// outbox_consumer_messages_total. The keeper's outcomes keep their names.
const (
	outcomeProcessed  = "processed"
	outcomeUnmarked   = "processed_unmarked"
	outcomeDuplicate  = "duplicate"
	outcomeInbox      = "duplicate_inbox"
	outcomeIgnored    = "ignored"
	outcomeInProgress = "in_progress"
	outcomeFailed     = "failed"
	outcomeMalformed  = "malformed"
	outcomeAway       = "dependency_away"
	outcomeReturned   = "returned" // handed back untouched: stopping, or enough received
)

// The dependencies that can be away.
const (
	dependencyRedis    = "redis"
	dependencyDatabase = "database"
)

type metrics struct {
	messages    *prometheus.CounterVec
	redelivered prometheus.Counter
	inFlight    prometheus.Gauge
	parked      prometheus.Gauge
	away        *prometheus.GaugeVec
	duration    prometheus.Histogram
	lag         prometheus.Histogram
}

func newMetrics(consumer string, reg prometheus.Registerer) *metrics {
	labels := prometheus.Labels{"consumer": consumer}
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outbox_consumer_messages_total", Help: "Messages settled, by outcome.", ConstLabels: labels,
		}, []string{"outcome"}),
		redelivered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outbox_consumer_redelivered_total", Help: "Messages that Pub/Sub delivered more than once, as far as it counts.", ConstLabels: labels,
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "outbox_consumer_in_flight", Help: "Messages being handled.", ConstLabels: labels,
		}),
		parked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "outbox_consumer_parked", Help: "Messages waiting to be nacked.", ConstLabels: labels,
		}),
		away: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "outbox_consumer_dependency_away", Help: "1 while receiving is paused because the dependency gives no answer.", ConstLabels: labels,
		}, []string{"dependency"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "outbox_consumer_handle_seconds", Help: "Time from receiving an event to its outcome.", ConstLabels: labels,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "outbox_consumer_lag_seconds", Help: "Age of an event, since its row was created, when its effect was committed.", ConstLabels: labels,
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600},
		}),
	}
	for _, outcome := range []string{
		outcomeProcessed, outcomeUnmarked, outcomeDuplicate, outcomeInbox, outcomeIgnored, outcomeInProgress,
		outcomeFailed, outcomeMalformed, outcomeAway, outcomeReturned,
	} {
		m.messages.WithLabelValues(outcome) // a rate over a series that appears late misses its first increase
	}
	m.setAway("")
	if reg != nil {
		reg.MustRegister(m.messages, m.redelivered, m.inFlight, m.parked, m.away, m.duration, m.lag)
	}
	return m
}

// setAway marks one dependency as away, or none.
func (m *metrics) setAway(dependency string) {
	for _, d := range []string{dependencyRedis, dependencyDatabase} {
		value := 0.0
		if d == dependency {
			value = 1
		}
		m.away.WithLabelValues(d).Set(value)
	}
}

func (m *metrics) applied(e Event, now time.Time) {
	if !e.CreatedAt.IsZero() {
		m.lag.Observe(max(0, now.Sub(e.CreatedAt).Seconds()))
	}
}
