package why_test

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/registry"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

// bundle is one test's installation.
type bundle struct {
	t      *testing.T
	ctx    context.Context
	db     *outboxtest.Database
	outbox *dlq.Outbox
}

// setup gives a test a database of its own; Redis is added by withRedis.
func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	db := outboxtest.DB(t)
	return &bundle{t: t, ctx: context.Background(), db: db, outbox: dlq.New(db.Pool, registry.New())}
}

// withRedis gives the installation a Redis, and returns a consumer's guard maker.
func (b *bundle) withRedis() (guard func(consumer string) *consume.Guard) {
	b.t.Helper()
	client := outboxtest.Redis(b.t).Client
	b.outbox.Keeper = idem.New(client, consume.DefaultTTL)
	return func(consumer string) *consume.Guard {
		b.t.Helper()
		g, err := consume.New(client, consumer, consume.Options{})
		require.NoError(b.t, err)
		return g
	}
}

// reads is the database as commands read it.
func (b *bundle) reads() *pgread.DB {
	return &pgread.DB{Pool: b.db.Pool, Limits: pgread.Within(pgread.DefaultTimeout)}
}

// pool opens the database with other settings.
func (b *bundle) pool(change func(*pgxpool.Config)) *pgxpool.Pool {
	b.t.Helper()
	config, err := pgxpool.ParseConfig(b.db.URL)
	require.NoError(b.t, err)
	change(config)
	pool, err := pgxpool.NewWithConfig(b.ctx, config)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	return pool
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.db.Pool.Exec(b.ctx, sql, args...)
	require.NoError(b.t, err)
}

// base is when the first event of a test is emitted.
func base() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// emit writes an event of the aggregate (empty: a new one), i seconds after base.
func (b *bundle) emit(aggregate string, i int) (eventID string) {
	b.t.Helper()
	eventID = uuid.Must(uuid.NewV7()).String()
	b.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, headers)
VALUES ($1::text::uuid, 'order_canceled', 'vendor_order', $2::text::uuid,
        jsonb_build_object('version', 1, 'eventId', $1::text, 'occurredAt', '2026-03-01T12:00:00Z', 'data', '{}'::jsonb), $3, '{"traceparent": "00-1"}')`,
		eventID, cmp.Or(aggregate, uuid.NewString()), base().Add(time.Duration(i)*time.Second))
	return eventID
}

// die writes an event that is dead, with its dead letter.
func (b *bundle) die(message string) (dlqID, eventID string) {
	b.t.Helper()
	eventID = b.emit("", 0)
	return b.dieAgain(eventID, "max_attempts", message), eventID
}

// dieAgain makes an event that exists dead and returns its new dead letter.
func (b *bundle) dieAgain(eventID, reason, message string) (dlqID string) {
	b.t.Helper()
	b.exec("UPDATE outbox_events SET dead_at = now(), attempt_count = 10, last_error = $2 WHERE id = $1::text::uuid", eventID, message)
	require.NoError(b.t, b.db.Pool.QueryRow(b.ctx, `
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason, error_message, attempt_count,
                        namespace, tenant_id, topic, fingerprint, event_created_at)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, headers, $2::text::outbox_dlq_reason, $3, 10, namespace, tenant_id, 'domain', $3, created_at
  FROM outbox_events WHERE id = $1::text::uuid
RETURNING id::text`, eventID, reason, message).Scan(&dlqID))
	return dlqID
}

// act makes a change to one dead letter.
func (b *bundle) act(action dlq.Action, id string) {
	b.t.Helper()
	_, _, err := b.change(dlq.ChangeParams{Action: action, IDs: []string{id}, Actor: "tester", Note: "because"})
	require.NoError(b.t, err)
}

// preview tells what a change would do, whatever would fail again.
func (b *bundle) preview(p dlq.ChangeParams) (all []dlq.Outcome, err error) {
	b.t.Helper()
	set, err := b.outbox.ChooseChange(b.ctx, p)
	require.NoError(b.t, err)
	_, err = set.Preview(b.ctx, dlq.DryRunParams{Force: true, OnOutcomes: func(o []dlq.Outcome) error { all = append(all, o...); return nil }})
	return all, err
}

// change makes a plan and runs it, as the command line does. It returns what became of every row, left out or not.
func (b *bundle) change(p dlq.ChangeParams) (result dlq.RunResult, all []dlq.Outcome, err error) {
	b.t.Helper()
	add := func(outcomes []dlq.Outcome) error { all = append(all, outcomes...); return nil }
	plan, err := b.outbox.PlanChange(b.ctx, p, dlq.PlanParams{AtOnce: true, OnAdded: func(_ int64, leftOut []dlq.Outcome) error { return add(leftOut) }})
	if err != nil {
		return dlq.RunResult{Counts: plan.LeftOut}, all, err
	}
	result, err = b.outbox.RunPlan(b.ctx, dlq.RunParams{ID: plan.ID, Runner: p.Actor, LeftOut: plan.LeftOut, OnOutcomes: add})
	return result, all, err
}

// modes are the driver's ways to run a statement, of which poolers allow only some.
func modes() []pgx.QueryExecMode {
	return []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
}

func requireKind(t *testing.T, want fault.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	kind, _ := fault.KindOf(fault.Database(err))
	require.Equal(t, want, kind, "%v", err)
}
