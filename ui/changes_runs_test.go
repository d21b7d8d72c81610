package ui_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
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

// second serves another page over the same database.
func (b *bundle) second(name string) (*bundle, *ui.Handler) {
	b.t.Helper()
	cfg := ui.Config{ReadPool: b.db.Pool, Refresh: 10 * time.Millisecond, Log: func(path string, err error) { b.t.Logf("%s: %v", path, err) }}
	operators(&cfg)
	cfg.Identify = func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: name, Role: ui.Operator}, nil }
	handler, err := ui.New(cfg)
	require.NoError(b.t, err)
	server := httptest.NewServer(handler)
	b.t.Cleanup(server.Close)
	return &bundle{t: b.t, db: b.db, url: server.URL}, handler
}

// The process ends in the middle of a run, and the other copy of the page resumes it: each row is changed once.
func TestARunIsInterruptedAndResumedByAnotherPage(t *testing.T) {
	b := setup(t, operators)
	b.kill(manyDead, "max_attempts")
	other, handler := b.second("bob")
	plan := other.plan("ready", "action", "replay", "filter.fingerprint", "f2", "note", "broker is back")
	require.EqualValues(t, manyDead, plan.Total)
	// Slow enough to be at it for minutes; ten rows at a time.
	status, _, text := other.run(plan, "rate", "40")
	require.Equal(t, http.StatusSeeOther, status, text)
	require.Eventually(t, func() bool {
		return b.count(`SELECT coalesce(sum(done), 0) FROM outbox_plan_chunks WHERE plan_id = $1::text::uuid`, plan.ID) > 0
	}, wantState, tick)
	_, _, body := b.get("/plans/" + plan.ID)
	require.Contains(t, body, "Stop after the rows it is at")
	status, _, text = b.form("/plans/" + plan.ID + "/run")
	require.Equal(t, http.StatusSeeOther, status, "it is running: %s", text)

	require.NoError(t, handler.Shutdown(context.WithoutCancel(t.Context())))
	plan = b.reaches(plan.ID, "interrupted")
	require.Less(t, plan.Done, plan.Total)
	_, _, body = b.get("/plans/" + plan.ID)
	require.Contains(t, body, "Resume: ")
	status, to, body := b.form("/plans/"+plan.ID+"/run", "rate", "")
	require.Equal(t, http.StatusSeeOther, status, body)
	require.Equal(t, "/plans/"+plan.ID, to)
	plan = b.reaches(plan.ID, "done")
	require.Equal(t, map[string]int64{"replayed": manyDead}, plan.Counts)
	require.EqualValues(t, manyDead, b.count(`SELECT sum(affected)::bigint FROM outbox_audit WHERE detail ->> 'runId' = $1`, plan.ID), "each row once")
	require.Positive(t, b.count(`SELECT count(*) FROM outbox_audit WHERE detail ->> 'runId' = $1 AND actor = 'ann@example.com' AND detail ->> 'author' = 'bob'`, plan.ID))
}

func TestARunIsStopped(t *testing.T) {
	b := setup(t, operators)
	b.kill(manyDead, "max_attempts")
	plan := b.plan("ready", "action", "discard", "filter.fingerprint", "f2", "note", "tests")
	_, _, _ = b.run(plan, "rate", "40")
	status, _, body := b.form("/plans/" + plan.ID + "/stop")
	require.Equal(t, http.StatusSeeOther, status, body)
	plan = b.reaches(plan.ID, "stopped")
	require.Equal(t, "stopped by ann@example.com", plan.EndedWhy)
}

// Two operators on two pages and the command line, all on the same rows: each row is changed once and each of them is told.
func TestOverlappingChangesChangeEachRowOnce(t *testing.T) {
	b := setup(t, operators)
	b.kill(manyDead, "max_attempts")
	other, handler := b.second("bob")
	t.Cleanup(func() { require.NoError(t, handler.Shutdown(context.WithoutCancel(t.Context()))) })
	var plans []dlq.Plan
	for _, page := range []*bundle{b, other} {
		plans = append(plans, page.plan("ready", "action", "replay", "filter.fingerprint", "f2", "note", "x"))
	}
	box := dlq.New(b.db.Pool, registry.New())
	set, err := box.ChooseChange(t.Context(), dlq.ChangeParams{Action: dlq.Replay, DeadLetters: &dlq.Filter{State: dlq.StateOpen, Fingerprints: []string{"f2"}}, Actor: "cli"})
	require.NoError(t, err)
	plan, err := set.Plan(t.Context(), dlq.PlanParams{AtOnce: true}) // before any of them runs: it has every row too
	require.NoError(t, err)

	var all sync.WaitGroup
	for i, page := range []*bundle{b, other} {
		all.Go(func() { page.run(plans[i]) })
	}
	var byHand dlq.RunResult
	var byHandErr error
	all.Go(func() {
		byHand, byHandErr = box.RunPlan(t.Context(), dlq.RunParams{ID: plan.ID, Runner: "cli", LeftOut: plan.LeftOut, OnOutcomes: func([]dlq.Outcome) error { return nil }})
	})
	all.Wait()
	require.NoError(t, byHandErr)
	changed, told := byHand.Counts[dlq.Replayed], byHand.Total()
	for _, plan := range plans {
		got := b.reaches(plan.ID, "done")
		changed += got.Counts[dlq.Replayed]
		for _, n := range got.Counts {
			told += n
		}
	}
	require.EqualValues(t, manyDead, changed, "each row once")
	require.EqualValues(t, 2*manyDead, told-changed, "who was late is told so")
}

func TestChangesAreLimited(t *testing.T) {
	b := setup(t, func(c *ui.Config) { operators(c); c.MaxPlanRows = 1 })
	b.kill(1001, "max_attempts")
	got := b.plan("abandoned", "action", "replay", "filter.fingerprint", "f2")
	require.Contains(t, got.EndedWhy, "more than 1 row")
}

func TestHostileTextInPlans(t *testing.T) {
	b := setup(t, func(c *ui.Config) {
		operators(c)
		c.Identify = func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: hostile, Role: ui.Operator}, nil }
	})
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, topic, fingerprint)
SELECT $2::text::uuid, 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'max_attempts', $1, 1, $1, $1`, hostile, eventID)
	require.NoError(t, err)
	plan := b.plan("ready", "action", "discard", "note", hostile, "filter.fingerprint", hostile)
	addresses := []string{"/plans/" + plan.ID, "/plans", "/dead-letters", "/causes"}
	look := func() {
		for _, address := range addresses {
			_, _, body := b.get(address)
			require.Contains(t, body, "window.pwned", address)
			body = withoutFields(body)
			for _, bad := range []string{"<script>w", "<img", "\u202e", "\x1b", "\u200b"} {
				require.NotContains(t, body, bad, address)
			}
		}
	}
	require.Eventually(t, func() bool { _, _, body := b.get("/causes"); return strings.Contains(body, "window.pwned") }, waitFor, tick)
	look()
	status, _, text := b.run(plan)
	require.Equal(t, http.StatusSeeOther, status, text)
	b.reaches(plan.ID, "done")
	addresses = []string{"/plans/" + plan.ID, "/plans", "/audit"}
	look()
}

// The consumers' marks stand beside the plan, or that Redis does not answer; and whether a later event has gone out already.
func TestAPlanShowsWhatConsumersRemember(t *testing.T) {
	b := setup(t, func(c *ui.Config) { operators(c); c.Redis = outboxtest.Redis(t).Client })
	_, plan, _ := b.form("/plans", "action", "replay", "ids", deadID)
	b.reaches(strings.TrimPrefix(plan, "/plans/"), dlq.PlanReady)
	_, _, body := b.get(plan)
	require.NotContains(t, body, "What the consumers remember is not known")
	require.NotContains(t, body, "a later event is published already")
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
VALUES (gen_random_uuid(), 'order_canceled', 'vendor_order', '00000000-0000-7000-8000-00000000aaaa', '{}', now())`)
	require.NoError(t, err)
	_, _, body = b.get(plan)
	require.Contains(t, body, "Of the aggregates of 1 event, a later event is published already")
}

// Every form leads below the base path.
func TestChangesBelowABasePath(t *testing.T) {
	b := setup(t, func(c *ui.Config) { operators(c); c.BasePath = "/ops/outbox" })
	status, header, _ := b.send(http.MethodPost, "/plans", formType, "action=replay&ids="+deadID)
	require.Equal(t, http.StatusSeeOther, status)
	require.Regexp(t, `^/ops/outbox/plans/`, header.Get("Location"))
	for _, address := range append(b.addresses(), strings.TrimPrefix(header.Get("Location"), b.base)) {
		_, _, body := b.get(address)
		for _, link := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			require.True(t, strings.HasPrefix(link[1], "/ops/outbox/") || link[1] == "#main", "%s: %s", address, link[1])
		}
	}
}
