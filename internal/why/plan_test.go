package why_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// dieMany writes n dead events with their dead letters.
func (b *bundle) dieMany(n int) {
	b.t.Helper()
	b.exec(`
WITH e AS (
    INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dead_at, attempt_count)
    SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), jsonb_build_object('data', i), now(), 10 FROM generate_series(1, $1::int) AS i
    RETURNING id, event_type, aggregate_type, aggregate_id, payload_json)
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'x', 10 FROM e`, n)
}

// plan makes a plan that replays everything that is open.
func (b *bundle) plan(author string) dlq.Plan {
	b.t.Helper()
	var told int64
	plan, err := b.outbox.PlanChange(b.ctx, dlq.ChangeParams{
		Action: dlq.Replay, DeadLetters: &dlq.Filter{State: dlq.StateOpen, Types: []string{"order_canceled"}}, Actor: author, Note: "broker is back",
	}, dlq.PlanParams{OnAdded: func(n int64, _ []dlq.Outcome) error { told += n; return nil }})
	require.NoError(b.t, err)
	require.Equal(b.t, plan.Total, told)
	return plan
}

func (b *bundle) run(ctx context.Context, id string, change func(*dlq.RunParams)) (dlq.RunResult, error) {
	p := dlq.RunParams{ID: id, Runner: "bob", Detail: map[string]any{"via": "test"}, OnOutcomes: func([]dlq.Outcome) error { return nil }}
	if change != nil {
		change(&p)
	}
	return b.outbox.RunPlan(ctx, p)
}

func (b *bundle) planState(id string) string {
	b.t.Helper()
	plan, err := b.outbox.Plan(b.ctx, id)
	require.NoError(b.t, err)
	return plan.State
}

func (b *bundle) count(sql string, args ...any) (n int64) {
	b.t.Helper()
	require.NoError(b.t, b.db.Pool.QueryRow(b.ctx, sql, args...).Scan(&n))
	return n
}

func TestAPlanIsMadeRunAndAudited(t *testing.T) {
	b := setup(t)
	b.dieMany(2100)
	plan := b.plan("ann")
	require.Equal(t, "ready", plan.State)
	require.EqualValues(t, 2100, plan.Total)
	require.WithinDuration(t, plan.CreatedAt.Add(7*24*time.Hour), plan.ExpiresAt, time.Second)
	b.dieMany(5) // not in the set
	one := ""
	require.NoError(t, b.db.Pool.QueryRow(b.ctx, `SELECT id::text FROM outbox_dlq ORDER BY failed_at, id LIMIT 1`).Scan(&one))
	b.act(dlq.Replay, one)

	result, err := b.run(b.ctx, plan.ID, nil)
	require.NoError(t, err)
	require.Equal(t, dlq.PlanDone, result.State)
	require.Equal(t, map[string]int64{dlq.Replayed: 2099, dlq.AlreadyReplayed: 1}, result.Counts)
	require.EqualValues(t, 5, b.count(`SELECT count(*) FROM outbox_dlq WHERE state = 'open'`))
	require.EqualValues(t, 3, b.count(`SELECT count(*) FROM outbox_audit WHERE actor = 'bob' AND note = 'broker is back'
   AND detail ->> 'runId' = $1 AND detail ->> 'author' = 'ann' AND detail ->> 'via' = 'test'`, plan.ID), "one audit row for each chunk")
	require.EqualValues(t, 2099, b.count(`SELECT sum(affected)::bigint FROM outbox_audit WHERE detail ->> 'runId' = $1`, plan.ID))

	got, err := b.outbox.Plan(b.ctx, plan.ID[:13])
	require.NoError(t, err)
	require.Equal(t, plan.ID, got.ID)
	require.Equal(t, result.Counts, got.Counts)
	require.Equal(t, []any{"done", "ann", "bob", int64(2100)}, []any{got.State, got.Author, got.Runner, got.Done})
	require.Len(t, got.Failed, 1)
	require.Equal(t, []string{one, dlq.AlreadyReplayed}, []string{got.Failed[0].ID, got.Failed[0].Outcome})

	_, err = b.run(b.ctx, plan.ID, nil)
	requireKind(t, fault.Precondition, err)
	for _, unknown := range []string{uuid.NewString(), "ffffffff"} {
		_, err = b.run(b.ctx, unknown, nil)
		requireKind(t, fault.NotFound, err)
	}
}

func TestARunIsStoppedInterruptedAndResumed(t *testing.T) {
	b := setup(t)
	b.dieMany(1500)
	plan := b.plan("ann")
	// One step at a time, of a thousand rows.
	slow := func(do func()) func(*dlq.RunParams) {
		return func(p *dlq.RunParams) {
			p.Rate, p.OnOutcomes = 1e6, func([]dlq.Outcome) error { do(); return nil }
		}
	}

	_, err := b.run(b.ctx, plan.ID, slow(func() { require.NoError(t, b.outbox.StopPlan(b.ctx, plan.ID, "cyd")) }))
	requireKind(t, fault.Partial, err)
	got, err := b.outbox.Plan(b.ctx, plan.ID)
	require.NoError(t, err)
	require.Equal(t, []any{"stopped", "stopped by cyd", int64(1000)}, []any{got.State, got.EndedWhy, got.Done})
	requireKind(t, fault.Precondition, b.outbox.StopPlan(b.ctx, plan.ID, "cyd"))

	ctx, cancel := context.WithCancel(b.ctx)
	result, err := b.run(ctx, plan.ID, func(p *dlq.RunParams) {
		p.Rate = 40 // ten rows at a time
		p.OnOutcomes = func([]dlq.Outcome) error { cancel(); return nil }
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, dlq.PlanInterrupted, result.State)
	require.EqualValues(t, 10, result.Total())

	// No publisher runs, so a watched run stops after its first event.
	_, err = b.run(b.ctx, plan.ID, func(p *dlq.RunParams) {
		p.Watch = &dlq.Watch{MaxDead: 0.05, For: time.Millisecond, Every: time.Millisecond}
	})
	requireKind(t, fault.Partial, err)
	got, err = b.outbox.Plan(b.ctx, plan.ID)
	require.NoError(t, err)
	require.Contains(t, got.EndedWhy, "is a publisher running?")
	require.EqualValues(t, 1, got.Watched.Waiting)
	require.EqualValues(t, 1011, got.Done)

	// Another one resumes it.
	_, err = b.run(b.ctx, plan.ID, slow(func() {
		_, err := b.run(b.ctx, plan.ID, nil)
		requireKind(t, fault.Precondition, err)
	}))
	require.NoError(t, err)
	require.Equal(t, "done", b.planState(plan.ID))
	require.EqualValues(t, 1500, b.count(`SELECT sum(affected)::bigint FROM outbox_audit`), "each row once")
}

func TestARunWhoseProcessIsGoneIsTakenOver(t *testing.T) {
	b := setup(t)
	b.dieMany(1200)
	plan := b.plan("ann")
	_, err := b.run(b.ctx, plan.ID, func(p *dlq.RunParams) {
		p.Rate = 1e6 // one step at a time
		p.OnOutcomes = func([]dlq.Outcome) error {
			// The first runner hangs longer than its lease; a second one does the rest.
			b.exec(`UPDATE outbox_plans SET lease_until = now() - interval '1 second'`)
			require.Equal(t, "interrupted", b.planState(plan.ID))
			_, err := b.run(b.ctx, plan.ID, func(p *dlq.RunParams) { p.Runner = "dan" })
			require.NoError(t, err)
			return nil
		}
	})
	requireKind(t, fault.Partial, err)
	require.ErrorContains(t, err, "another runner has taken it over")
	require.Equal(t, "done", b.planState(plan.ID))
	require.EqualValues(t, 1200, b.count(`SELECT sum(affected)::bigint FROM outbox_audit`))
	require.EqualValues(t, 200, b.count(`SELECT sum(affected)::bigint FROM outbox_audit WHERE actor = 'dan'`))
}

// Two plans of the same set: each row is changed once and both are told.
func TestOverlappingRunsChangeEachRowOnce(t *testing.T) {
	b := setup(t)
	b.dieMany(3000)
	first, second := b.plan("ann"), b.plan("bob")
	results := make([]dlq.RunResult, 2)
	errs := make([]error, 2)
	var all sync.WaitGroup
	for i, plan := range []dlq.Plan{first, second} {
		all.Go(func() { results[i], errs[i] = b.run(b.ctx, plan.ID, nil) })
	}
	all.Wait()
	var changed, told int64
	for i, r := range results {
		require.NoError(t, errs[i])
		changed += r.Counts[dlq.Replayed]
		told += r.Total()
	}
	require.EqualValues(t, 3000, changed)
	require.Positive(t, told-changed, "who was late is told so")
	require.EqualValues(t, 3000, b.count(`SELECT sum(affected)::bigint FROM outbox_audit`))
	require.Zero(t, b.count(`SELECT count(*) FROM outbox_dlq WHERE state = 'open'`))
}

func TestAPlanThatMustNotBeRunIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change string
		state  string
		want   string
	}{
		"abandoned": {`SELECT outbox_plan_abandon(id, 'ann', '') FROM outbox_plans`, "abandoned", "is abandoned"},
		"expired":   {`UPDATE outbox_plans SET created_at = now() - interval '169 hours'`, "expired", "has expired"},
		"of another database": {
			`UPDATE outbox_plans SET database = jsonb_set(database, '{systemIdentifier}', '"1"')`, "ready", "came here with a copy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.dieMany(2)
			plan := b.plan("ann")
			b.exec(tc.change)
			require.Equal(t, tc.state, b.planState(plan.ID))
			_, err := b.run(b.ctx, plan.ID, nil)
			requireKind(t, fault.Precondition, err)
			require.ErrorContains(t, err, tc.want)
			require.Zero(t, b.count(`SELECT count(*) FROM outbox_audit`))
		})
	}
}

// What an event carries cannot change by any function of ours, but a plan must not trust that.
func TestARunLeavesAloneWhatHasChanged(t *testing.T) {
	b := setup(t)
	b.dieMany(3)
	plan := b.plan("ann")
	b.exec(`SET session_replication_role = replica; UPDATE outbox_events SET payload_json = '{"data": "other"}' WHERE payload_json ->> 'data' = '2'; RESET session_replication_role`)
	result, err := b.run(b.ctx, plan.ID, nil)
	requireKind(t, fault.Partial, err)
	require.ErrorContains(t, err, "1 of 3 dead letters could not be replayed")
	require.Equal(t, map[string]int64{dlq.Replayed: 2, dlq.Changed: 1}, result.Counts)
}

func TestEveryActionIsPlannedInEveryMode(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.String(), func(t *testing.T) {
			b := setup(t)
			b.outbox.DB = b.pool(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			b.dieMany(2)
			published := b.emit("", 0)
			b.exec(`UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid`, published)
			f := &dlq.Filter{State: dlq.StateOpen, Types: []string{"order_canceled"}}
			for _, p := range []dlq.ChangeParams{
				{Action: dlq.Discard, DeadLetters: f},
				{Action: dlq.Restore, DeadLetters: &dlq.Filter{State: dlq.StateDiscarded, Types: f.Types}},
				{Action: dlq.Replay, DeadLetters: f},
				{Action: dlq.Republish, Events: &outbox.Filter{Status: outbox.StatusPublished}},
			} {
				p.Actor = "ann"
				plan, err := b.outbox.PlanChange(b.ctx, p, dlq.PlanParams{})
				require.NoError(t, err)
				result, err := b.run(b.ctx, plan.ID, nil)
				require.NoError(t, err)
				require.Equal(t, map[string]int64{p.Action.Success(): plan.Total}, result.Counts)
			}
			var plans []dlq.Plan
			page, err := b.outbox.ListPlans(b.ctx, dlq.ListPlansParams{Page: outbox.Page{Limit: 3}}, func(p dlq.Plan) error { plans = append(plans, p); return nil })
			require.NoError(t, err)
			require.Equal(t, plans[2].ID, page.Next)
			_, err = b.outbox.ListPlans(b.ctx, dlq.ListPlansParams{Page: outbox.Page{Cursor: page.Next}}, func(p dlq.Plan) error { plans = append(plans, p); return nil })
			require.NoError(t, err)
			require.Len(t, plans, 4)
			require.Equal(t, dlq.Discard, plans[3].Action)
		})
	}
}

// An operator's role can do all of it, and a viewer's can look.
func TestPlansByRole(t *testing.T) {
	b := setup(t)
	b.dieMany(2)
	as := func(role string) outbox.Database {
		return b.pool(func(c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "SET ROLE "+role)
				return err
			}
		})
	}
	b.outbox.DB = as("outbox_operator")
	plan := b.plan("ann")
	b.outbox.DB = as("outbox_viewer")
	require.Equal(t, "ready", b.planState(plan.ID))
	_, err := b.run(b.ctx, plan.ID, nil)
	requireKind(t, fault.Precondition, err)
	b.outbox.DB = as("outbox_operator")
	_, err = b.run(b.ctx, plan.ID, nil)
	require.NoError(t, err)
}
