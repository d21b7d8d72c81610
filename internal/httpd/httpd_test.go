package httpd_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/internal/httpd"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestServer(t *testing.T) {
	var away atomic.Bool
	reg := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	reg.MustRegister(counter)
	counter.Inc()
	s, err := httpd.Listen(t.Context(), httpd.Params{
		Addr:   "127.0.0.1:0",
		Health: []httpd.Check{{Name: "loop", Run: func(context.Context) error { return nil }}},
		Ready: func() []httpd.Check {
			return []httpd.Check{
				{Name: "database", Run: func(context.Context) error { return nil }},
				{Name: "redis", Run: func(context.Context) error {
					if away.Load() {
						return errors.New("dial redis://user:canary@host: refused")
					}
					return nil
				}},
			}
		},
		Metrics: reg,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+path, http.NoBody)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}

	code, body := get("/healthz")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"status":"ok"}`, body)
	code, _ = get("/readyz")
	require.Equal(t, http.StatusOK, code)
	code, body = get("/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "things_total 1")
	code, _ = get("/debug/pprof/")
	require.Equal(t, http.StatusNotFound, code)

	away.Store(true)
	code, body = get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, `"redis"`)
	require.NotContains(t, body, "database")
	require.NotContains(t, body, "canary")
	code, _ = get("/healthz")
	require.Equal(t, http.StatusOK, code, "an outage elsewhere must not get this process restarted")

	cancel()
	require.NoError(t, <-done)

	taken, err := httpd.Listen(t.Context(), httpd.Params{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	_, err = httpd.Listen(t.Context(), httpd.Params{Addr: taken.Addr()})
	require.ErrorContains(t, err, "listen for http")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, taken.Run(ended))
}
