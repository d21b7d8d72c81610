package ui_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/ui"
)

// What is long is compressed, but not what another site made a browser ask for: its length would tell what is in it.
func TestAnswersAreCompressedForOurOwnPages(t *testing.T) {
	b := setup(t, nil)
	_, _, plain := b.get("/causes")
	for _, tc := range []struct {
		address string
		headers []string
		want    string
	}{
		{"/causes", []string{"Accept-Encoding", "gzip"}, "gzip"},
		{"/causes", []string{"Accept-Encoding", "br, gzip;q=0.5", "Sec-Fetch-Site", "same-origin"}, "gzip"},
		{"/causes", []string{"Accept-Encoding", "gzip", "Sec-Fetch-Site", "none"}, "gzip"},
		{"/causes", []string{"Accept-Encoding", "gzip;q=0"}, ""},
		{"/causes", []string{"Accept-Encoding", "gzip", "Sec-Fetch-Site", "cross-site"}, ""},
		{"/causes", []string{"Accept-Encoding", "gzip", "Sec-Fetch-Site", "same-site"}, ""},
		{"/healthz", []string{"Accept-Encoding", "gzip"}, ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+tc.address, nil)
		require.NoError(t, err)
		for i := 0; i < len(tc.headers); i += 2 {
			request.Header.Set(tc.headers[i], tc.headers[i+1])
		}
		transport := &http.Transport{DisableCompression: true}
		response, err := transport.RoundTrip(request)
		require.NoError(t, err)
		require.Equal(t, tc.want, response.Header.Get("Content-Encoding"), "%s %v", tc.address, tc.headers)
		if tc.want != "" && tc.address == "/causes" {
			unpacked, err := gzip.NewReader(response.Body)
			require.NoError(t, err)
			page, err := io.ReadAll(unpacked)
			require.NoError(t, err)
			require.InDelta(t, len(plain), len(page), 100)
		}
		require.NoError(t, response.Body.Close())
		transport.CloseIdleConnections()
	}
}

// Metrics are for those who are signed in, and no made-up address becomes a series.
func TestMetricsAreForThoseWhoAreSignedIn(t *testing.T) {
	b := setup(t, func(c *ui.Config) {
		c.Metrics = prometheus.NewRegistry()
		c.Identify = func(r *http.Request) (ui.Identity, error) {
			if r.Header.Get("Authorization") == "" {
				return ui.Identity{}, ui.ErrNotSignedIn
			}
			return ui.Identity{Name: "prometheus"}, nil
		}
	})
	status, _, _ := b.get("/metrics")
	require.Equal(t, http.StatusUnauthorized, status)
	b.get("/made-up", "Authorization", "x")
	b.get("/parts/causes", "Authorization", "x")
	status, _, body := b.get("/metrics", "Authorization", "x")
	require.Equal(t, http.StatusOK, status)
	for _, want := range []string{
		`outbox_ui_requests_total{code="401",kind="probe"} 1`, `outbox_ui_requests_total{code="404",kind="page"} 1`, `outbox_ui_requests_total{code="200",kind="part"} 1`,
		"outbox_ui_request_duration_seconds_bucket", "outbox_ui_snapshot_duration_seconds", "outbox_ui_snapshot_errors_total 0", "outbox_ui_snapshot_age_seconds",
	} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, "made-up")
	status, _, _ = setup2(t, b, "").get("/metrics")
	require.Equal(t, http.StatusNotFound, status)
}

// Where a replica is read, runs and plans are read where they are written: it may not have them yet.
func TestRunsAreReadWhereTheyAreWritten(t *testing.T) {
	replica := outboxtest.DB(t)
	b := setup(t, func(c *ui.Config) {
		c.Pool, c.ReadPool, c.AllowChanges = c.ReadPool, replica.Pool, true
	})
	for address, want := range map[string]int{
		"/plans/" + b.planID(): http.StatusOK, "/dead-letters/00000000-0000-7000-8000-0000000000d3": http.StatusNotFound,
	} {
		status, _, body := b.get(address)
		require.Equal(t, want, status, "%s: %s", address, body)
	}
}

// The figures come slowly while no page is open: neither a probe nor a stranger is a viewer.
func TestOnlyAViewerKeepsTheFiguresComing(t *testing.T) {
	b := setup(t, func(c *ui.Config) {
		c.Identify = func(r *http.Request) (ui.Identity, error) {
			if r.Header.Get("Authorization") == "" {
				return ui.Identity{}, ui.ErrNotSignedIn
			}
			return ui.Identity{Name: "ann"}, nil
		}
	})
	before := b.handler.Looked()
	for address, want := range map[string]int{"/readyz": http.StatusOK, "/healthz": http.StatusOK, "/": http.StatusUnauthorized} {
		status, _, _ := b.get(address)
		require.Equal(t, want, status, address)
		require.Equal(t, before, b.handler.Looked(), address)
	}
	status, _, _ := b.get("/", "Authorization", "x")
	require.Equal(t, http.StatusOK, status)
	require.True(t, b.handler.Looked().After(before))
}
