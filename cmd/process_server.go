package cmd

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/telemetry"
)

// processServer answers supervisors and Prometheus for a process that publishes or consumes.
type processServer struct {
	log  zerolog.Logger
	addr string
	// elsewhere: another port will do where this one is taken.
	elsewhere bool
	// metrics is nil where nothing is served.
	metrics *prometheus.Registry
}

// newProcessServer prepares the server; an empty address serves nothing.
func newProcessServer(app *cli.App, log zerolog.Logger, addr string) *processServer {
	s := &processServer{log: log, addr: addr}
	if addr != "" {
		s.metrics = prometheus.NewRegistry()
		telemetry.RegisterProcess(s.metrics, app.Build.Version, app.Build.Commit, app.Build.Go)
	}
	return s
}

// newPublishServer prepares a publisher's server where one is wanted. A drain of a few seconds does
// not fight a running publisher for its port: with --once the address must have been chosen.
func newPublishServer(app *cli.App, cfg *cli.Config, once bool) *processServer {
	addr := cfg.Publish.HTTPAddr
	if once && cfg.Origin("publish.http_addr") == cli.OriginDefault {
		addr = ""
	}
	return newProcessServer(app, app.Log(), addr)
}

// registerer takes the process's metrics; nil: nothing is measured.
func (s *processServer) registerer() prometheus.Registerer {
	if s.metrics == nil {
		return nil // and not an interface with a nil in it
	}
	return s.metrics
}

// around runs work while the server answers. The server outlives it, so that a draining process
// still answers; one that stops answering ends it: monitoring must not be blind.
func (s *processServer) around(ctx context.Context, alive httpd.Check, ready func() []httpd.Check, work func(context.Context) error) error {
	if s.metrics == nil {
		return work(ctx)
	}
	params := httpd.Params{Addr: s.addr, Health: []httpd.Check{alive}, Ready: ready, Metrics: s.metrics}
	server, err := httpd.Listen(ctx, params)
	if s.elsewhere && errors.Is(err, syscall.EADDRINUSE) {
		host, _, _ := net.SplitHostPort(s.addr)
		params.Addr = net.JoinHostPort(host, "0")
		server, err = httpd.Listen(ctx, params)
	}
	if err != nil {
		return fault.Hint(fault.As(fault.Precondition, err), "--http-addr 127.0.0.1:0 picks a free port, an empty one serves nothing")
	}
	s.log.Info().Str("addr", server.Addr()).Msg("serving /healthz, /readyz and /metrics")
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	served := make(chan error, 1)
	go func() { defer cancel(); served <- server.Run(serving) }()
	err = work(running)
	stop()
	return errors.Join(err, <-served)
}
