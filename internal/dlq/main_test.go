package dlq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

// bundle is one test's database with the store on it.
type bundle struct {
	t     *testing.T
	ctx   context.Context
	pool  *pgxpool.Pool
	url   string
	store *dlq.Outbox
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	db := outboxtest.DB(t)
	return &bundle{t: t, ctx: context.Background(), pool: db.Pool, url: db.URL, store: dlq.New(db.Pool, registry.New())}
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.ctx, sql, args...)
	require.NoError(b.t, err)
}

func (b *bundle) count(sql string, args ...any) (n int64) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.ctx, sql, args...).Scan(&n))
	return n
}

// death describes a dead event to make. Zero fields get values that work.
type death struct {
	Type, Aggregate, AggregateID, Reason, Error, Namespace, Topic, State string
	Tenant                                                               *string
	At                                                                   time.Time
}

// base is when the first death of a test happens.
func base() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// die makes an event that is dead, with its dead letter, the way the publisher leaves them.
func (b *bundle) die(d death) (dlqID, eventID string) {
	b.t.Helper()
	eventID = uuid.Must(uuid.NewV7()).String()
	d.AggregateID = or(d.AggregateID, uuid.NewString())
	if d.At.IsZero() {
		d.At = base()
	}
	b.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, namespace, tenant_id, dead_at, attempt_count, last_error, headers)
VALUES ($1::text::uuid, $2::text::event_type_enum, $3::text::aggregate_type_enum, $4::text::uuid,
        jsonb_build_object('version', 1, 'eventId', $1::text, 'occurredAt', '2026-03-01T12:00:00Z', 'data', '{}'::jsonb), $5, $6, $7::text::uuid, $5, 10, 'no', '{"traceparent": "00-1"}')`,
		eventID, or(d.Type, "order_canceled"), or(d.Aggregate, "vendor_order"), d.AggregateID, d.At, or(d.Namespace, "default"), d.Tenant)
	return b.deadLetter(eventID, d), eventID
}

// deadLetter writes a dead letter for an event that exists.
func (b *bundle) deadLetter(eventID string, d death) (dlqID string) {
	b.t.Helper()
	reason, message := or(d.Reason, "max_attempts"), or(d.Error, "rpc error: code = Unavailable desc = no")
	err := b.pool.QueryRow(b.ctx, `
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason, error_message, attempt_count,
                        failed_at, namespace, tenant_id, topic, fingerprint, event_created_at, state, state_changed_at)
SELECT e.id, e.event_type, e.aggregate_type, e.aggregate_id, e.payload_json, e.headers, $2::text::outbox_dlq_reason, $3, 10, $4, e.namespace, e.tenant_id, $5, $6,
       e.created_at, $7, CASE WHEN $7 <> 'open' THEN now() END
  FROM outbox_events AS e WHERE e.id = $1::text::uuid
RETURNING id::text`, eventID, reason, message, d.At, or(d.Topic, "domain"), outbox.Fingerprint(outbox.DeadReason(reason), message), or(d.State, "open")).Scan(&dlqID)
	require.NoError(b.t, err)
	return dlqID
}

// many makes n dead events at once, one second apart.
func (b *bundle) many(n int) {
	b.t.Helper()
	b.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, dead_at, attempt_count, last_error)
SELECT outbox_uuid_v7(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{"version": 1, "data": {}}', $2::timestamptz + i * interval '1 second',
       $2::timestamptz + i * interval '1 second', 10, 'no'
  FROM generate_series(1, $1::int) AS i`, n, base())
	b.exec(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, fingerprint, event_created_at)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'no', 10, dead_at, 'domain', 'f', created_at FROM outbox_events`)
}

// fixed is the source of these targets.
func fixed(targets []dlq.Target) dlq.Source {
	return func(yield func([]dlq.Target, error) bool) { yield(targets, nil) }
}

// act does one thing to ids and returns what became of each, in their order.
func (b *bundle) act(action dlq.Action, ids ...string) []string {
	b.t.Helper()
	set := make([]dlq.Target, len(ids))
	for i, id := range ids {
		set[i].ID = id
	}
	_, outcomes := b.run(b.ctx, change{Action: action, Source: fixed(set)})
	became := map[string]string{}
	for _, o := range outcomes {
		became[o.ID] = o.Outcome
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = became[id]
	}
	return words
}

// change is a plan to be made and run.
type change struct {
	Action     dlq.Action
	Source     dlq.Source
	Discard    bool
	Rate       float64
	Watch      *dlq.Watch
	OnOutcomes func([]dlq.Outcome) error
}

// plan makes a plan. What it leaves out is returned too.
func (b *bundle) plan(c change) (plan dlq.Plan, leftOut []dlq.Outcome, err error) {
	b.t.Helper()
	set, err := b.store.SetOf(b.ctx, c.Action, c.Source, c.Discard)
	require.NoError(b.t, err)
	plan, err = set.Plan(b.ctx, dlq.PlanParams{
		OnAdded: func(_ int64, out []dlq.Outcome) error { leftOut = append(leftOut, out...); return nil },
	})
	return plan, leftOut, err
}

// run makes a plan and runs it. It returns the run with what became of every row, left out or not.
func (b *bundle) run(ctx context.Context, c change) (dlq.RunResult, []dlq.Outcome) {
	b.t.Helper()
	plan, all, err := b.plan(c)
	if plan.State == "abandoned" {
		return dlq.RunResult{Counts: plan.LeftOut}, all
	}
	require.NoError(b.t, err)
	res, err := b.store.Run(ctx, plan, dlq.RunParams{
		Runner: "tester", Rate: c.Rate, Watch: c.Watch, LeftOut: plan.LeftOut, OnOutcomes: func(o []dlq.Outcome) error {
			all = append(all, o...)
			if c.OnOutcomes != nil {
				return c.OnOutcomes(o)
			}
			return nil
		},
	})
	require.NoError(b.t, err)
	return res, all
}

// open is the source of the open dead letters, oldest first.
func (b *bundle) open(f dlq.Filter) dlq.Source {
	b.t.Helper()
	f.State = dlq.StateOpen
	return dlq.Scanned(b.ctx, b.scan(f, outbox.OldestFirst))
}

func (b *bundle) scan(f dlq.Filter, order outbox.Order) *outbox.Scan[dlq.Entry] {
	b.t.Helper()
	scan, err := b.store.ScanDeadLetters(f, order)
	require.NoError(b.t, err)
	return scan
}

// all reads a scan to its end, in pages of n.
func (b *bundle) all(scan *outbox.Scan[dlq.Entry], n int) (ids []string) {
	b.t.Helper()
	for {
		targets, err := scan.Next(b.ctx, n)
		require.NoError(b.t, err)
		if len(targets) == 0 {
			return ids
		}
		require.LessOrEqual(b.t, len(targets), n)
		for _, t := range targets {
			ids = append(ids, t.ID)
		}
	}
}

func mustJSON(v any) string {
	doc, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(doc)
}
