package consumer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/consumer"
)

func TestLicenseEventsBecomeNotices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := newIDs(4)
	w.publish(
		license(ids[0], "pending", ""),
		license(ids[1], "verified", ""),
		license(ids[2], "rejected", "the scan is unreadable"),
		message(ids[3], "order_created", `{}`),
	)
	report := w.drained(w.worker(consumer.Config{}))
	require.EqualValues(t, 3, report.Processed)
	require.Positive(t, report.Ignored)
	require.Zero(t, report.Failed+report.Malformed)

	type row struct{ Audience, Status, Reason, Type string }
	rows, err := w.pool.Query(t.Context(), `SELECT audience, status, coalesce(reason, ''), type FROM notifications ORDER BY status`)
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(t, err)
	require.Equal(t, []row{
		{"admin", "pending", "", "compliance"},
		{"store", "rejected", "the scan is unreadable", "compliance"},
		{"store", "verified", "", "compliance"},
	}, found)

	entry, err := w.keeper().Lookup(t.Context(), notifications.Consumer, ids[2])
	require.NoError(t, err)
	require.Equal(t, consume.StateProcessed, entry.State)
	consumers, err := w.keeper().Consumers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"compliance"}, consumers)
}

func TestFiftyDeliveriesOfOneEventRunOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.Must(uuid.NewV7())
	msgs := make([]*pubsub.Message, 50)
	for i := range msgs {
		msgs[i] = license(id, "pending", "")
	}
	w.publish(msgs...)
	var runs atomic.Int64
	worker := w.example(w.bare(50, consumer.Config{Hooks: consumer.Hooks{
		AfterBegin: func(uuid.UUID) { runs.Add(1) },
	}}))
	report := w.drained(worker)
	require.EqualValues(t, 1, runs.Load())
	require.GreaterOrEqual(t, report.Duplicates, int64(49))
	require.Equal(t, once([]uuid.UUID{id}), w.effects())
}

func TestDuplicatesLeaveOneEffectEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	events := scaled(1_000, 10_000)
	ids := newIDs(events)
	msgs := make([]*pubsub.Message, 0, events+events/5)
	for i, id := range ids {
		msgs = append(msgs, license(id, "verified", ""))
		if i%5 == 0 {
			msgs = append(msgs, license(id, "verified", ""))
		}
	}
	w.publish(msgs...)
	report := w.drained(w.example(w.bare(64, consumer.Config{})))
	require.Equal(t, once(ids), w.effects())
	require.EqualValues(t, events, report.Processed)
	require.GreaterOrEqual(t, report.Duplicates, int64(events/5))
}

func TestTheInboxHoldsWhenRedisForgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := newIDs(200)
	var handled atomic.Int64
	hooks := consumer.Hooks{
		AfterEffect: func(uuid.UUID) {
			if n := handled.Add(1); n == 50 || n == 120 { // twice, in the middle of everything
				rdb, err := consume.NewClient(w.rdbURL)
				if err == nil {
					err = errors.Join(rdb.FlushDB(context.Background()).Err(), rdb.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}
		},
	}
	for range 2 {
		msgs := make([]*pubsub.Message, len(ids))
		for i, id := range ids {
			msgs[i] = license(id, "pending", "")
		}
		w.publish(msgs...)
	}
	w.drained(w.worker(consumer.Config{Hooks: hooks}))
	require.Equal(t, once(ids), w.effects())

	rdb, err := consume.NewClient(w.rdbURL)
	require.NoError(t, err)
	defer rdb.Close()
	require.NoError(t, rdb.FlushDB(t.Context()).Err())
	w.publish(license(ids[0], "pending", ""))
	report := w.drained(w.worker(consumer.Config{}))
	require.Zero(t, report.Processed)
	require.Positive(t, report.Duplicates, "known to the inbox alone")
	require.Equal(t, once(ids), w.effects())
	entry, err := w.keeper().Lookup(t.Context(), notifications.Consumer, ids[0])
	require.NoError(t, err)
	require.Equal(t, consume.StateProcessed, entry.State, "Redis is told again")
}

func TestFailuresAreRetriedUntilTheySucceed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := newIDs(100)
	msgs := make([]*pubsub.Message, len(ids))
	for i, id := range ids {
		msgs[i] = license(id, "pending", "")
	}
	w.publish(msgs...)
	var draws atomic.Int64
	db := failingDB{w.pool, func() bool { return draws.Add(1)%3 == 0 }}
	worker := w.bare(16, consumer.Config{})
	worker.Router.HandleBatch(notifications.EventType, db, consume.BatchOptions{}, notifications.Write)
	report := w.drained(worker)
	require.Positive(t, report.Failed)
	require.EqualValues(t, 100, report.Processed)
	require.Equal(t, once(ids), w.effects(), "a failed handler leaves no effect behind")
}

// failingDB begins transactions that fail to commit when fails reports true.
type failingDB struct {
	consume.DB
	fails func() bool
}

func (db failingDB) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := db.DB.BeginTx(ctx, options)
	return failingTx{tx, db.fails}, err
}

type failingTx struct {
	pgx.Tx
	fails func() bool
}

func (tx failingTx) Commit(ctx context.Context) error {
	if tx.fails() {
		return errors.New("injected")
	}
	return tx.Tx.Commit(ctx)
}

func TestAPanickingHandlerIsAFailedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.Must(uuid.NewV7())
	w.publish(license(id, "pending", ""))
	var tries atomic.Int64
	worker := w.bare(16, consumer.Config{})
	worker.Router.HandleTx(notifications.EventType, w.pool, func(ctx context.Context, tx pgx.Tx, e consume.Event) error {
		if tries.Add(1) == 1 {
			panic("poison")
		}
		return notifications.Write(ctx, tx, []consume.Event{e})
	})
	report := w.drained(worker)
	require.EqualValues(t, 1, report.Failed)
	require.Equal(t, once([]uuid.UUID{id}), w.effects())
}

func TestStopWaitsForTheHandlerUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.Must(uuid.NewV7())
	w.publish(license(id, "pending", ""))
	entered, proceed := make(chan struct{}), make(chan struct{})
	stop := w.running(w.worker(consumer.Config{Hooks: consumer.Hooks{AfterBegin: func(uuid.UUID) {
		close(entered)
		<-proceed
	}}}))
	<-entered
	stopped := make(chan consumer.Report, 1)
	go func() { stopped <- stop() }()
	close(proceed)
	report := <-stopped
	require.EqualValues(t, 1, report.Processed)
	require.Equal(t, once([]uuid.UUID{id}), w.effects())
	entry, err := w.keeper().Lookup(t.Context(), notifications.Consumer, id)
	require.NoError(t, err)
	require.Equal(t, consume.StateProcessed, entry.State, "no lease is left behind")
}

func TestStopEndsAHandlerThatWillNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.Must(uuid.NewV7())
	w.publish(license(id, "pending", ""))
	entered := make(chan struct{})
	worker := w.bare(16, consumer.Config{Drain: 50 * time.Millisecond})
	stop := w.running(handled(worker, func(ctx context.Context, _ consume.Event) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}))
	<-entered
	report := stop()
	require.EqualValues(t, 1, report.Failed)
	entry, err := w.keeper().Lookup(t.Context(), notifications.Consumer, id)
	require.NoError(t, err)
	require.Equal(t, consume.StateUnknown, entry.State, "the next delivery may run at once")
}

func TestIdleExit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := newIDs(20)
	for _, id := range ids {
		w.publish(license(id, "pending", ""))
	}
	for processed := int64(0); processed < 20; { // a busy machine's first message may come after the worker went
		report, err := w.worker(consumer.Config{IdleExit: time.Second}).Run(t.Context())
		require.NoError(t, err)
		processed += report.Processed
	}
}

func TestCountIsExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := newIDs(60)
	msgs := make([]*pubsub.Message, len(ids))
	for i, id := range ids {
		msgs[i] = license(id, "pending", "")
	}
	w.publish(msgs...)
	report, err := w.example(w.bare(32, consumer.Config{Count: 25})).Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 25, report.Processed)
	require.Len(t, w.effects(), 25)
}

func TestAMissingSubscriptionIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.client.Source(t.Context(), broker.SourceParams{Subscription: "no-such-sub", Concurrency: 1})
	require.ErrorIs(t, err, broker.ErrNoSubscription)

	source := shortSource(w.client, 1)
	require.Empty(t, source.About().Warning, "it has a dead-letter policy")
	require.NoError(t, w.client.PubSub().SubscriptionAdminClient.DeleteSubscription(t.Context(), &pubsubpb.DeleteSubscriptionRequest{
		Subscription: "projects/" + w.client.Project() + "/subscriptions/" + subscription,
	}))
	_, err = w.example(consumer.New(source, w.guard(consume.Options{}), consumer.Config{})).Run(t.Context())
	require.ErrorIs(t, err, broker.ErrNoSubscription)
	require.True(t, source.Permanent(err), "%v", err)
}

// A router without a handler would acknowledge everything.
func TestAWorkerNeedsAHandler(t *testing.T) {
	t.Parallel()
	_, err := newWorld(t).bare(1, consumer.Config{}).Run(t.Context())
	require.ErrorContains(t, err, "no handler")
}

// silence is a subscription whose messages go to another worker.
type silence struct{}

func (silence) Receive(ctx context.Context, _ func(broker.Delivery)) error {
	<-ctx.Done()
	return nil
}

func (silence) Permanent(error) bool { return false }
func (silence) About() broker.About  { return broker.About{} }

// lines hands on what is logged.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestASilentSubscriptionIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logged := make(lines, 10)
	stop := w.running(w.example(consumer.New(silence{}, w.guard(consume.Options{}),
		consumer.Config{Count: 5, QuietAfter: time.Millisecond, Log: zerolog.New(logged)})))
	require.Contains(t, <-logged, "no message yet")
	require.Zero(t, stop())
}
