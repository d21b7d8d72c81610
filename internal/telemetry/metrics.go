// Package telemetry shows what a dispatcher does: as Prometheus metrics and as
// log lines. It is told through dispatch.Observer and changes nothing.
package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

const namespace = "outbox"

// Metrics counts what a dispatcher does.
type Metrics struct {
	published *prometheus.CounterVec
	failed    *prometheus.CounterVec
	dead      *prometheus.CounterVec
	released  *prometheus.CounterVec
	anomalous *prometheus.CounterVec
	leaseLost prometheus.Counter
	troubles  *prometheus.CounterVec
	claimRows prometheus.Counter
	sweeps    prometheus.Counter
	claim     *prometheus.HistogramVec
	publish   *prometheus.HistogramVec
	settle    *prometheus.HistogramVec
	latency   *prometheus.HistogramVec
	breaker   *prometheus.GaugeVec
}

// The kinds of anomalous events. An event type never becomes a label: a plain INSERT may invent
// any.
const (
	anomalyOtherID     = "other_event_id"
	anomalyExtraFields = "extra_fields"
)

// durations reach from a cheap claim to the publish time-out.
func durations() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
}

// NewMetrics registers the dispatcher's metrics.
// Every topic and reason is there from the start, at zero: an alert on a
// series that does not exist yet never fires.
func NewMetrics(r prometheus.Registerer, topics []string) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: durations()}, labels)
	}
	m := &Metrics{
		published: counter("published_total", "Events the broker has acknowledged.", "topic"),
		failed:    counter("failed_total", "Attempts to publish that failed and will be repeated.", "topic", "code"),
		dead:      counter("dead_total", "Events moved to the dead-letter table.", "reason"),
		released:  counter("released_total", "Claimed events given back without losing an attempt.", "topic"),
		leaseLost: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "lease_lost_total",
			Help: "Events whose verdict was refused because their lease had passed to another publisher."}),
		anomalous: counter("anomalous_events_total", "Events published although they are anomalous: another eventId than the row's, or fields the catalogue does not name.", "kind"),
		troubles:  counter("errors_total", "Errors that no event and no topic is to blame for.", "doing"),
		claimRows: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "claimed_total",
			Help: "Events claimed."}),
		sweeps: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "sweeps_total",
			Help: "Claims that walked the backlog from its head."}),
		claim:   histogram("claim_duration_seconds", "Time of one claim.", "result"),
		publish: histogram("publish_duration_seconds", "Time until the broker answered one request.", "topic"),
		settle:  histogram("settle_duration_seconds", "Time of one settle transaction.", "result"),
		latency: histogram("delivery_latency_seconds", "Time from the start of the emitting transaction to the broker's acknowledgement, by both clocks.", "topic"),
		breaker: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "breaker_state",
			Help: "1 for the state a topic is in: healthy, recovering, unreachable or misconfigured."}, []string{"topic", "state"}),
	}
	r.MustRegister(m.anomalous, m.published, m.failed, m.dead, m.released, m.leaseLost, m.troubles, m.claimRows, m.sweeps,
		m.claim, m.publish, m.settle, m.latency, m.breaker)
	for _, topic := range topics {
		m.published.WithLabelValues(topic)
		m.released.WithLabelValues(topic)
		m.publish.WithLabelValues(topic)
		m.latency.WithLabelValues(topic)
		m.TopicChanged(dispatch.TopicReport{Topic: topic, State: dispatch.TopicHealthy})
	}
	m.anomalous.WithLabelValues(anomalyOtherID)
	m.anomalous.WithLabelValues(anomalyExtraFields)
	for _, reason := range outbox.DeadReasons() {
		m.dead.WithLabelValues(reason)
	}
	return m
}

func states() []dispatch.TopicState {
	return []dispatch.TopicState{dispatch.TopicHealthy, dispatch.TopicRecovering, dispatch.TopicUnreachable, dispatch.TopicMisconfigured}
}

// Claimed implements dispatch.Observer.
func (m *Metrics) Claimed(r dispatch.ClaimReport) {
	m.claim.WithLabelValues(result(r.Err)).Observe(r.Took.Seconds())
	m.claimRows.Add(float64(r.Rows))
	if r.Sweep {
		m.sweeps.Inc()
	}
}

// Published implements dispatch.Observer.
func (m *Metrics) Published(topic string, took time.Duration, attempts []dispatch.Attempt) {
	// Rows that were not sent have no topic, and are all dead.
	if topic != "" {
		m.publish.WithLabelValues(topic).Observe(took.Seconds())
	}
	now, published := time.Now(), 0
	for i := range attempts {
		a := &attempts[i]
		switch a.Outcome {
		case dispatch.OutcomePublished:
			published++
			if a.Row.Notes.OtherID {
				m.anomalous.WithLabelValues(anomalyOtherID).Inc()
			}
			if a.Row.Notes.ExtraFields > 0 {
				m.anomalous.WithLabelValues(anomalyExtraFields).Inc()
			}
			m.latency.WithLabelValues(topic).Observe(max(now.Sub(a.Row.CreatedAt), 0).Seconds())
		case dispatch.OutcomeFailed:
			m.failed.WithLabelValues(topic, dispatch.CodeOf(a.Err)).Inc()
		case dispatch.OutcomeDead:
			m.dead.WithLabelValues(string(a.Reason)).Inc()
		case dispatch.OutcomeReleased:
			m.released.WithLabelValues(topic).Inc()
		}
	}
	if published > 0 {
		m.published.WithLabelValues(topic).Add(float64(published))
	}
}

// Settled implements dispatch.Observer.
func (m *Metrics) Settled(r dispatch.SettleReport) {
	m.settle.WithLabelValues(result(r.Err)).Observe(r.Took.Seconds())
	m.leaseLost.Add(float64(r.Lost))
}

// TopicChanged implements dispatch.Observer.
func (m *Metrics) TopicChanged(s dispatch.TopicReport) {
	for _, state := range states() {
		value := 0.0
		if state == s.State {
			value = 1
		}
		m.breaker.WithLabelValues(s.Topic, string(state)).Set(value)
	}
}

// Trouble implements dispatch.Observer.
func (m *Metrics) Trouble(doing string, _ error) { m.troubles.WithLabelValues(doing).Inc() }

// RegisterProcess registers the metrics of the process, and a gauge of 1 whose labels name the
// program that runs.
func RegisterProcess(r prometheus.Registerer, version, commit, goVersion string) {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, with the version of outboxctl in its labels.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": goVersion},
	})
	info.Set(1)
	r.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
