package dlq_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// boundedDB is the database, for callers that a hung server must not hold for ever.
type boundedDB struct {
	outbox.Database
	t *testing.T
	// asked is how many statements were sent after the caller had gone, and gone whether it has.
	asked int
	gone  func() bool
}

func (d *boundedDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	require.NotNil(d.t, ctx.Done(), "waits without end: %s", sql)
	if d.gone() {
		d.asked++
	}
	return d.Database.Query(ctx, sql, args...)
}

// BeginTx is where a change begins, which is finished although its caller has gone.
func (d *boundedDB) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	require.NotNil(d.t, ctx.Done(), "waits without end")
	if d.gone() {
		d.asked++
	}
	return d.Database.BeginTx(ctx, opts)
}

// What is finished after Ctrl-C is bounded, whatever it asks: the end of a run, the last look.
func TestNothingThatIsFinishedWaitsForEver(t *testing.T) {
	b := setup(t)
	b.many(3)
	plan, _, err := b.plan(change{Action: dlq.Replay, Source: b.open(dlq.Filter{})})
	require.NoError(t, err)
	running, stop := context.WithCancel(b.ctx)
	watched := &boundedDB{Database: b.pool, t: t, gone: func() bool { return running.Err() != nil }}
	res, err := dlq.New(watched, registry.New()).Run(running, plan, dlq.RunParams{Runner: "tester", Rate: 1, OnOutcomes: func([]dlq.Outcome) error { stop(); return nil }})
	require.NoError(t, err)
	require.True(t, res.Interrupted)
	require.Equal(t, dlq.PlanInterrupted, res.State)
	require.Positive(t, watched.asked, "how it ended is written down")

	ctx, cancel := context.WithCancel(b.ctx)
	db := &boundedDB{Database: b.pool, t: t, gone: func() bool { return ctx.Err() != nil }}
	var waiting string
	require.NoError(t, b.pool.QueryRow(b.ctx, "SELECT id::text FROM outbox_events WHERE dead_at IS NULL LIMIT 1").Scan(&waiting))
	db.Database = &afterwards{db.Database, cancel}
	sum, err := dlq.New(db, registry.New()).AwaitAll(ctx, dlq.AwaitParams{
		Sent: []dlq.Outcome{{EventID: waiting}}, Timeout: time.Hour, Every: time.Hour, OnSettled: func(dlq.Outcome) error { return nil },
	})
	require.NoError(t, err)
	require.Equal(t, dlq.Fates{Waiting: 1}, sum)
	require.Equal(t, 1, db.asked)
}

// afterwards is a database in which something happens once an answer is read.
type afterwards struct {
	outbox.Database
	do func()
}

func (a *afterwards) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := a.Database.Query(ctx, sql, args...)
	return closing{rows, a.do}, err
}

type closing struct {
	pgx.Rows
	do func()
}

func (c closing) Close() {
	c.Rows.Close()
	c.do()
}
