package ui_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/ui"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

// secret stands in every payload and header of a test: no answer may have it.
const secret = "canary-7f3a"

// world is some events of every kind, the ids of which end in what they are.
const world = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, headers, created_at, published_at, dead_at, attempt_count, last_error)
SELECT ('00000000-0000-7000-8000-0000000000' || v.id)::uuid, 'order_canceled', 'vendor_order', '00000000-0000-7000-8000-00000000aaaa',
       '{"data": "canary-7f3a"}', '{"token": "canary-7f3a"}', now() - interval '1 hour', v.published, v.dead, 10, v.error
  FROM (VALUES ('e1', now(), NULL::timestamptz, NULL), ('e2', NULL, NULL, NULL), ('e3', NULL, now(), 'no such topic'), ('e4', NULL, now(), 'no such topic')) AS v(id, published, dead, error);
INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason, error_message, attempt_count, topic, fingerprint, event_created_at)
SELECT replace(id::text, '0000e', '0000d')::uuid, id, event_type, aggregate_type, aggregate_id, payload_json, headers, 'max_attempts', last_error, 10, 'domain', 'f1', created_at
  FROM outbox_events WHERE dead_at IS NOT NULL`

// bundle is one test's page.
type bundle struct {
	t    *testing.T
	db   *outboxtest.Database
	base string
	url  string
	// handler is nil for a second page.
	handler *ui.Handler
}

// setup serves a page over a world of its own, and waits for its first figures.
func setup(t *testing.T, change func(*ui.Config)) *bundle {
	t.Helper()
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), world)
	require.NoError(t, err)
	box := dlq.New(db.Pool, registry.New())
	set, err := box.ChooseChange(t.Context(), dlq.ChangeParams{Action: dlq.Discard, IDs: []string{"00000000-0000-7000-8000-0000000000d4"}, Actor: "ann", Note: "a test"})
	require.NoError(t, err)
	plan, err := set.Plan(t.Context(), dlq.PlanParams{})
	require.NoError(t, err)
	_, err = box.RunPlan(t.Context(), dlq.RunParams{ID: plan.ID, Runner: "bob", OnOutcomes: func([]dlq.Outcome) error { return nil }})
	require.NoError(t, err)

	cfg := ui.Config{
		ReadPool: db.Pool, Label: "test", Refresh: 500 * time.Millisecond,
		Identify: func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: "eve@example.com"}, nil },
		Topics:   map[string]string{"domain": "shop-domain"}, Settings: []ui.Setting{{Key: "ui.addr", Value: "127.0.0.1:9466", Origin: "default"}},
		Doctor: func(context.Context) ([]ui.Finding, error) {
			return []ui.Finding{{Area: "database", Check: "vacuum", Level: "warn", Message: "vacuum is late", Remedy: "VACUUM outbox_events"}, {Area: "redis", Check: "server", Level: "ok", Message: "7.0"}}, nil
		},
		Log: func(path string, err error) { t.Logf("%s: %v", path, err) },
	}
	if change != nil {
		change(&cfg)
	}
	handler, err := ui.New(cfg)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, handler.Shutdown(context.WithoutCancel(t.Context())))
	})
	b := &bundle{t: t, db: db, handler: handler, base: strings.TrimRight(cfg.BasePath, "/"), url: server.URL}
	require.Eventually(t, func() bool { status, _, _ := b.get("/readyz"); return status == http.StatusOK }, waitFor, tick)
	return b
}

// get asks for an address below the base path, and follows no redirect.
func (b *bundle) get(path string, headers ...string) (status int, header http.Header, body string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url+b.base+path, nil)
	require.NoError(b.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		if request.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	require.NoError(b.t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	client.CloseIdleConnections()
	return response.StatusCode, response.Header, string(content)
}

// planID is the plan that the world has.
func (b *bundle) planID() (id string) {
	b.t.Helper()
	require.NoError(b.t, b.db.Pool.QueryRow(b.t.Context(), `SELECT id::text FROM outbox_plans`).Scan(&id))
	return id
}

// discarded is the run of the discard that the world has.
func (b *bundle) discarded() (run string) {
	b.t.Helper()
	require.NoError(b.t, b.db.Pool.QueryRow(b.t.Context(), `SELECT detail ->> 'runId' FROM outbox_audit WHERE action = 'dlq.discard' ORDER BY id LIMIT 1`).Scan(&run))
	return run
}

// addresses are all pages of the world.
func (b *bundle) addresses() []string {
	return []string{
		"/", "/causes", "/causes?by=reason", "/dead-letters", "/dead-letters?state=all", "/dead-letters?error-like=such&type=order_canceled", "/dead-letters?reason=invalid_payload",
		"/dead-letters/00000000-0000-7000-8000-0000000000d3", "/events", "/events?status=published", "/events/00000000-0000-7000-8000-0000000000e1",
		"/events?aggregate=" + url.QueryEscape("vendor_order/00000000-0000-7000-8000-00000000aaaa"), "/ordering-keys?key=x", "/plans", "/plans/" + b.planID(), "/topics", "/publishers", "/consumers", "/consumers?consumer=mailer", "/catalogue", "/catalogue/order_created", "/history", "/history?span=24h", "/history?span=7d", "/audit", "/audit/" + b.planID(), "/audit?actor=bob", "/doctor", "/settings",
	}
}
