package cmd

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/telemetry"
)

// publishServer answers supervisors and Prometheus for a process that publishes.
type publishServer struct {
	app  *cli.App
	addr string
	// metrics is nil where nothing is served.
	metrics *prometheus.Registry
}

// newPublishServer prepares the server where one is wanted. A drain of a few seconds does not fight
// a running publisher for its port: with --once the address must have been chosen.
func newPublishServer(app *cli.App, cfg *cli.Config, once bool) *publishServer {
	s := &publishServer{app: app, addr: cfg.Publish.HTTPAddr}
	if s.addr != "" && (!once || cfg.Origin("publish.http_addr") != cli.OriginDefault) {
		s.metrics = prometheus.NewRegistry()
		telemetry.RegisterProcess(s.metrics, app.Build.Version, app.Build.Commit, app.Build.Go)
	}
	return s
}

// labelled is the registerer of a context's metrics; an empty name is that of a process that has
// one. It is nil where nothing is measured.
func (s *publishServer) labelled(name string) prometheus.Registerer {
	switch {
	case s.metrics == nil:
		return nil
	case name == "":
		return s.metrics
	default:
		return prometheus.WrapRegistererWith(prometheus.Labels{"context": name}, s.metrics)
	}
}

// around runs publish while the server answers. The server outlives it, so that a draining
// publisher still answers; one that stops answering ends it: monitoring must not be blind.
func (s *publishServer) around(ctx context.Context, alive func(context.Context) error, ready func() []httpd.Check,
	publish func(context.Context) error) error {
	if s.metrics == nil {
		return publish(ctx)
	}
	server, err := httpd.Listen(ctx, httpd.Params{
		Addr: s.addr, Health: []httpd.Check{{Name: "loop", Run: alive}}, Ready: ready, Metrics: s.metrics,
	})
	if err != nil {
		return fault.Hint(fault.As(fault.Precondition, err), "--http-addr 127.0.0.1:0 picks a free port, an empty one serves nothing")
	}
	log := s.app.Log()
	log.Info().Str("addr", server.Addr()).Msg("serving /healthz, /readyz and /metrics")
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	served := make(chan error, 1)
	go func() { defer cancel(); served <- server.Run(serving) }()
	err = publish(running)
	stop()
	return errors.Join(err, <-served)
}
