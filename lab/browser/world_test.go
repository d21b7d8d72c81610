package browser

import (
	"context"
	_ "embed"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/ui"
)

// world is a shop's outbox on a bad morning: the same rows in every run.
//
//go:embed testdata/world.sql
var world string

// The two rows that journeys visit by their ids.
const (
	letterID = "01930000-0000-7000-8000-0000000000d1"
	eventID  = "01930000-0000-7000-8000-0000000000e1"
)

// site is a page over a world.
type site struct {
	t   *testing.T
	db  *outboxtest.Database
	url string
	// close ends the process of the page, as far as others can tell.
	close func()
}

// live makes the figures come as fast as a journey needs them that waits for them. Others have those of the start.
func live(c *ui.Config) { c.Refresh = 200 * time.Millisecond }

// newSite serves the page over the world, and what else is in it. change may alter how.
func newSite(t *testing.T, change func(*ui.Config), more ...string) *site {
	t.Helper()
	db := outboxtest.DB(t)
	for _, sql := range append([]string{world}, more...) {
		_, err := db.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	return serve(t, db, change)
}

// serve serves the page over a database.
func serve(t *testing.T, db *outboxtest.Database, change func(*ui.Config)) *site {
	t.Helper()
	cfg := ui.Config{
		ReadPool: db.Pool, Label: "shop", Color: "blue", Refresh: time.Hour, QueryTimeout: patience, Redis: outboxtest.Redis(t).Client,
		Topics: map[string]string{"billing": "shop-billing"}, Settings: []ui.Setting{
			{Key: "database.url", Value: "postgres://page:xxxxx@db.example.com/outbox", Origin: "environment", Flag: "--database-url"},
			{Key: "ui.refresh", Value: "5s", Origin: "default", Flag: "--refresh"},
		},
		Doctor: func(context.Context) ([]ui.Finding, error) {
			return []ui.Finding{
				{Area: "database", Check: "vacuum", Level: "warn", Message: "outbox_events was last vacuumed 9 days ago", Remedy: "VACUUM outbox_events; see autovacuum_vacuum_scale_factor"},
				{Area: "pubsub", Check: "topics", Level: "fail", Message: "topic shop-billing does not answer", Remedy: "outboxctl topic ensure"},
				{Area: "redis", Check: "server", Level: "ok", Message: "redis 7.0.15, memory policy noeviction"},
			}, nil
		},
		Identify: func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: "ann@example.com"}, nil },
		Log:      func(path string, err error) { t.Logf("%s: %v", path, err) },
	}
	if change != nil {
		change(&cfg)
	}
	page, err := ui.New(cfg)
	require.NoError(t, err)
	server := httptest.NewServer(page)
	end := sync.OnceFunc(func() {
		server.CloseClientConnections()
		server.Close()
		require.NoError(t, page.Shutdown(context.WithoutCancel(t.Context())))
	})
	t.Cleanup(end)
	s := &site{t: t, db: db, url: server.URL + strings.TrimRight(cfg.BasePath, "/"), close: end}
	require.Eventually(t, func() bool { return s.status(http.MethodGet, "/readyz") == http.StatusOK }, patience, 20*time.Millisecond)
	return s
}

// status is what a request is answered with.
func (s *site) status(method, path string, headers ...string) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, http.NoBody)
	require.NoError(s.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		if request.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(s.t, err)
	require.NoError(s.t, response.Body.Close())
	return response.StatusCode
}

// exec changes the world.
func (s *site) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.db.Pool.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

// plan plans a replay of a cause, as a person does before it runs, and returns its id.
func (s *site) plan() string {
	s.t.Helper()
	outbox := dlq.New(s.db.Pool, registry.New())
	set, err := outbox.ChooseChange(s.t.Context(), dlq.ChangeParams{
		Action: dlq.Replay, DeadLetters: &dlq.Filter{State: dlq.StateOpen, Fingerprints: []string{"max_attempts:billing-deadline"}}, Actor: "ann@example.com", Note: "billing is back, INC-4411",
	})
	require.NoError(s.t, err)
	plan, err := set.Plan(s.t.Context(), dlq.PlanParams{})
	require.NoError(s.t, err)
	return plan.ID
}

// addresses are all pages, with rows and without.
func (s *site) addresses(plan string) []string {
	return []string{
		"/", "/causes", "/causes?by=reason", "/dead-letters", "/dead-letters?state=replayed", "/dead-letters?reason=invalid_payload&type=order_created",
		"/dead-letters/" + letterID, "/events", "/events?status=published", "/events/" + eventID, "/events?aggregate=vendor_order", "/ordering-keys?key=none", "/plans", "/plans/" + plan, "/topics", "/publishers", "/consumers", "/catalogue", "/catalogue/order_created", "/history", "/history?span=7d&topic=domain", "/audit", "/audit/1", "/audit?actor=nobody", "/doctor", "/settings",
	}
}
