// Package httpd serves what a supervisor and Prometheus ask a long-running command: /healthz,
// /readyz and /metrics.
//
// Liveness and readiness are different questions. A process whose database is away is alive: a
// restart would not bring the database back, and an outage would restart every process at once. So
// /healthz asks only whether the process's own loop moves, and /readyz whether what it depends on
// can be reached.
package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// Time-outs keep a slow or hostile client from holding a connection for ever.
const (
	readTimeout     = 5 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 60 * time.Second
	checkTimeout    = 5 * time.Second
	shutdownTimeout = 2 * time.Second
	maxHeaderBytes  = 16 << 10
)

// Check is one thing that must hold. Its error is part of the answer.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// Params of Listen.
type Params struct {
	// Addr to listen on; port 0 picks one.
	Addr string
	// Health are asked by /healthz.
	Health []Check
	// Ready lists what /readyz asks, for each request.
	Ready func() []Check
	// Metrics are served on /metrics.
	Metrics prometheus.Gatherer
}

// Server is a listening server. It answers once Run is called.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Listen binds the address at once, so that a port taken by another process is an error at start
// and not a silent absence of metrics.
func Listen(ctx context.Context, p Params) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", p.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for http: %w", fault.Address(p.Addr, err))
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", checks(func() []Check { return p.Health }))
	mux.Handle("GET /readyz", checks(p.Ready))
	if p.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{}))
	}
	return &Server{listener: l, server: &http.Server{
		Handler:           http.MaxBytesHandler(mux, 0),
		ReadTimeout:       readTimeout,
		ReadHeaderTimeout: readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}}, nil
}

// Addr is where the server listens, with the port it picked.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		// A scrape under way may finish; a connection that idles may not delay the exit.
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if s.server.Shutdown(shutdown) != nil {
			_ = s.server.Close()
		}
	})
	defer stop()
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// answer is the body of /healthz and /readyz.
type answer struct {
	Status string            `json:"status"`
	Failed map[string]string `json:"failed,omitempty"`
}

// checks runs all of them at once: with several dependencies away, the answer should name each and
// still come before the prober gives up.
func checks(list func() []Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all := list()
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		errs := make([]error, len(all))
		var running sync.WaitGroup
		for i, c := range all {
			running.Go(func() { errs[i] = c.Run(ctx) })
		}
		running.Wait()
		a, code := answer{Status: "ok"}, http.StatusOK
		for i, err := range errs {
			if err == nil {
				continue
			}
			if a.Failed == nil {
				a, code = answer{Status: "failing", Failed: map[string]string{}}, http.StatusServiceUnavailable
			}
			a.Failed[all[i].Name] = safetext.Redact(err.Error())
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(a) // the prober may have hung up
	})
}

// ParseBasePath reads the prefix of a page's addresses and returns it without the slash at its end.
func ParseBasePath(raw string) (string, error) {
	base := strings.TrimRight(raw, "/")
	if base != "" && (!strings.HasPrefix(base, "/") || strings.ContainsAny(base, "{}?#%")) {
		return "", fmt.Errorf("%q is not a path such as /ops/outbox", raw)
	}
	return base, nil
}
