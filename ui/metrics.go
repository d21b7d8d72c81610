package ui

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics counts what the page is asked and what its figures cost. No label comes from a request:
// there would be a series for every made-up address.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	snapshot  prometheus.Gauge
	failures  prometheus.Counter
}

// newMetrics registers the page's metrics; r may be nil.
func newMetrics(r *prometheus.Registry, age func() float64) (*metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "outbox", Subsystem: "ui", Name: name, Help: help}
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts(opts("requests_total", "Requests by what was asked for and the status of the answer.")), []string{"kind", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "outbox", Subsystem: "ui", Name: "request_duration_seconds", Help: "Time until a request was answered.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .15, .25, .5, 1, 2.5, 5, 10},
		}, []string{"kind"}),
		snapshot: prometheus.NewGauge(prometheus.GaugeOpts(opts("snapshot_duration_seconds", "Time that the last snapshot of the figures took."))),
		failures: prometheus.NewCounter(prometheus.CounterOpts(opts("snapshot_errors_total", "Snapshots that could not be taken."))),
	}
	if r == nil {
		return m, nil
	}
	old := prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("snapshot_age_seconds", "Age of the figures that the page shows.")), age)
	for _, c := range []prometheus.Collector{m.requests, m.durations, m.snapshot, m.failures, old} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) taken(took time.Duration, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	m.snapshot.Set(took.Seconds())
}

type kindKey struct{}

func (m *metrics) count(next http.Handler) http.Handler {
	kind := promhttp.WithLabelFromCtx("kind", func(ctx context.Context) string { return ctx.Value(kindKey{}).(string) })
	counted := promhttp.InstrumentHandlerCounter(m.requests, promhttp.InstrumentHandlerDuration(m.durations, next, kind), kind)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), kindKey{}, kindOf(r))))
	})
}

func kindOf(r *http.Request) string {
	switch path := r.URL.Path; {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return "change"
	case path == "/healthz" || path == "/readyz" || path == "/metrics":
		return "probe"
	case strings.HasPrefix(path, "/assets/"):
		return "asset"
	case strings.HasPrefix(path, "/parts/"):
		return "part"
	}
	return "page"
}
