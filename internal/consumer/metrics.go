package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/consume"
)

type metrics struct {
	messages      *prometheus.CounterVec
	redelivered   prometheus.Counter
	gaveUp        prometheus.Counter
	away          *prometheus.GaugeVec
	duration, lag prometheus.Histogram
}

func newMetrics(w *Worker, consumer string, reg prometheus.Registerer) *metrics {
	labels := prometheus.Labels{"consumer": consumer}
	histogram := func(name, help string, buckets ...float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help,
			ConstLabels: labels, Buckets: buckets})
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return float64(value())
		})
	}
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "outbox_consumer_messages_total", Help: "Messages settled, by outcome.", ConstLabels: labels,
		}, []string{"outcome"}),
		redelivered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outbox_consumer_redelivered_total", ConstLabels: labels,
			Help: "Messages that the broker delivered more than once, as far as it counts.",
		}),
		gaveUp: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "outbox_consumer_gave_up_total", ConstLabels: labels,
			Help: "Times that an event was given up: it is not tried again, or left to the dead-letter policy.",
		}),
		away: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "outbox_consumer_dependency_away", ConstLabels: labels,
			Help: "1 while receiving is paused because the dependency gives no answer.",
		}, []string{"dependency"}),
		duration: histogram("outbox_consumer_handle_seconds", "Time from receiving an event to its outcome.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30),
		lag: histogram("outbox_consumer_lag_seconds", "Age of an event, since its row was created, when its effect was committed.",
			.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600),
	}
	for _, outcome := range []consume.Outcome{
		consume.Processed, consume.ProcessedUnmarked, consume.Duplicate, consume.DuplicateInbox, consume.Ignored,
		consume.InProgress, consume.Failed, consume.Invalid, consume.Unavailable, consume.Returned,
	} {
		m.messages.WithLabelValues(string(outcome)) // a rate over a series that appears late misses its first increase
	}
	m.setAway(nil)
	if reg != nil {
		reg.MustRegister(m.messages, m.redelivered, m.gaveUp, m.away, m.duration, m.lag,
			gauge("outbox_consumer_in_flight", "Messages being handled.", func() int { return w.busy }),
			gauge("outbox_consumer_parked", "Messages held back behind a failure, or waiting to be given back.", func() int { return max(0, w.open-w.busy) }))
	}
	return m
}

// setAway marks the dependency that err speaks of as away, or none.
func (m *metrics) setAway(err error) {
	for dependency, away := range map[string]error{"redis": consume.ErrUnavailable,
		"database": consume.ErrDatabaseUnavailable} {
		value := 0.0
		if errors.Is(err, away) {
			value = 1
		}
		m.away.WithLabelValues(dependency).Set(value)
	}
}

// setTrouble says why nothing is received; nil means that something is.
func (w *Worker) setTrouble(err error) {
	w.metrics.setAway(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = err
}

// enter counts a message that has arrived, and returns the function to call when its callback ends.
func (w *Worker) enter(d consume.Delivery) func() {
	started := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received++
	w.busy++
	w.open++
	w.lastEvent = started
	if d.Attempt > 1 {
		w.metrics.redelivered.Inc()
	}
	return func() {
		w.metrics.duration.Observe(time.Since(started).Seconds())
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy--
		w.lastEvent = time.Now()
	}
}

// watch is put around every handler.
func (w *Worker) watch(next consume.Handler) consume.Handler {
	return func(ctx context.Context, e consume.Event) error {
		w.mu.Lock()
		w.handling[e.ID] = time.Now()
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.handling, e.ID)
		}()
		hook(w.cfg.Hooks.AfterBegin, e.ID)
		err := next(ctx, e)
		if err == nil {
			if !e.CreatedAt.IsZero() {
				w.metrics.lag.Observe(max(0, time.Since(e.CreatedAt).Seconds()))
			}
			hook(w.cfg.Hooks.AfterEffect, e.ID)
		}
		return err
	}
}

// settled counts what became of a message.
func (w *Worker) settled(d consume.Delivery, outcome consume.Outcome, _ error) {
	w.metrics.messages.WithLabelValues(string(outcome)).Inc()
	w.mu.Lock()
	w.outcomes[outcome]++
	w.mu.Unlock()
	if outcome == consume.Processed {
		hook(w.cfg.Hooks.AfterDone, uuid.MustParse(d.Attributes[consume.AttrEventID]))
	}
}

func hook(f func(uuid.UUID), id uuid.UUID) {
	if f != nil {
		f(id)
	}
}
