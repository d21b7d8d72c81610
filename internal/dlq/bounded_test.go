package dlq_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// boundedDB is the database, for callers that a hung server must not hold for ever.
type boundedDB struct {
	dlq.DB
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
	return d.DB.Query(ctx, sql, args...)
}

// What is finished after Ctrl-C is bounded, whatever it asks: the digests of a plan, a preview, an earlier run, the last look.
func TestNothingThatIsFinishedWaitsForEver(t *testing.T) {
	b := setup(t)
	b.many(3)
	plan := b.freeze()
	header, _, err := dlq.CheckPlan(bytes.NewReader(plan))
	require.NoError(t, err)
	b.exec("UPDATE outbox_dlq SET state = 'discarded' WHERE id = (SELECT min(id::text)::uuid FROM outbox_dlq)") // an earlier run may have been it
	for _, dryRun := range []bool{true, false} {
		ctx, cancel := context.WithCancel(b.ctx)
		db := &boundedDB{DB: b.pool, t: t, gone: func() bool { return ctx.Err() != nil }}
		source, err := dlq.OpenPlan(bytes.NewReader(plan))
		require.NoError(t, err)
		_, err = dlq.NewStore(db).Run(ctx, dlq.RunParams{
			Action: dlq.Replay, Who: dlq.Who{Actor: "tester"}, Source: cancelling{source, cancel}, Plan: &header, DryRun: dryRun, Detail: map[string]any{}, OnOutcomes: func([]dlq.Outcome) error { return nil },
		})
		require.NoError(t, err)
		require.Positive(t, db.asked, "a chunk that was begun is finished")
	}

	ctx, cancel := context.WithCancel(b.ctx)
	db := &boundedDB{DB: b.pool, t: t, gone: func() bool { return ctx.Err() != nil }}
	var waiting string
	require.NoError(t, b.pool.QueryRow(b.ctx, "SELECT id::text FROM outbox_events WHERE dead_at IS NULL LIMIT 1").Scan(&waiting))
	db.DB = &afterwards{db.DB, cancel}
	sum, err := dlq.NewStore(db).Await(ctx, dlq.AwaitParams{
		Events: []string{waiting}, Timeout: time.Hour, Every: time.Hour, OnSettled: func(string, string) error { return nil },
	})
	require.NoError(t, err)
	require.Equal(t, dlq.Watched{Waiting: 1}, sum)
	require.Equal(t, 1, db.asked)
}

// cancelling is a source whose caller goes once the first targets are handed out.
type cancelling struct {
	dlq.Source
	cancel context.CancelFunc
}

func (c cancelling) Next(ctx context.Context, n int) ([]dlq.Target, error) {
	defer c.cancel()
	return c.Source.Next(ctx, n)
}

// afterwards is a database in which something happens once an answer is read.
type afterwards struct {
	dlq.DB
	do func()
}

func (a *afterwards) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := a.DB.Query(ctx, sql, args...)
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

// A dead letter that cleanup removes while a plan is made is not in it: without its digest the file would be refused.
func TestAPlanLeavesOutWhatIsRemovedMeanwhile(t *testing.T) {
	b := setup(t)
	b.many(1)
	removed, _ := b.die(death{})
	here, err := b.store.Identity(b.ctx)
	require.NoError(t, err)
	b.exec("ALTER TABLE outbox_dlq DISABLE TRIGGER USER")
	source := b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst)
	store := dlq.NewStore(&afterwards{b.pool, func() { b.exec("DELETE FROM outbox_dlq WHERE id = $1::text::uuid", removed) }})
	var file bytes.Buffer
	n, skipped, err := store.WritePlan(b.ctx, &file, dlq.PlanHeader{Action: dlq.Replay, Author: "tester", Database: here}, source)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, map[string]int64{dlq.NotFound: 1}, skipped)
	_, count, err := dlq.CheckPlan(&file)
	require.NoError(t, err)
	require.EqualValues(t, 1, count)
}
