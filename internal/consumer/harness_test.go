package consumer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

const (
	topic        = "pf-domain-events"
	subscription = "pf-domain-events-sub"
	deadLetters  = "pf-domain-events-dead-letter-sub"
)

func TestMain(m *testing.M) {
	if os.Getenv(envWindow) == orderedWindow {
		applyInOrder() // likewise
		return
	}
	if window := os.Getenv(envWindow); window != "" {
		crashAt(window) // this process is a worker that a test will see die
		return
	}
	// The library's handler of stream pings notices the end of its stream at its
	// next tick, up to ten seconds later.
	outboxtest.Main(m,
		goleak.IgnoreAnyFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"),
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"), // started by an init function, never stopped
	)
}

// world is a database, a Redis and a Pub/Sub with the domain topic.
type world struct {
	t      testing.TB
	pool   *pgxpool.Pool
	dbURL  string
	rdbURL string
	fake   *devstack.PubSub
	client *pubsub.Client
}

// scaled returns the size of a run: small in the everyday suite, as large as
// promised with OUTBOXCTL_TEST_FULL=1.
func scaled(everyday, full int) int {
	if os.Getenv("OUTBOXCTL_TEST_FULL") != "" {
		return full
	}
	return everyday
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db := outboxtest.DB(t)
	return worldOn(t, db, outboxtest.Redis(t).URL)
}

func worldOn(t testing.TB, db *outboxtest.Database, rdbURL string) *world {
	t.Helper()
	fake := outboxtest.PubSub(t)
	w := &world{t: t, pool: db.Pool, dbURL: db.URL, rdbURL: rdbURL, fake: fake}
	require.NoError(t, notifications.CreateTable(context.Background(), db.Pool))
	w.client = connect(t, fake.Addr())
	t.Cleanup(func() { require.NoError(t, w.client.Close()) })
	plan := pubsub.Plan(map[string]string{"domain": topic}, map[string]string{"domain": subscription})
	outboxtest.Ensure(t, w.client.Ensure, broker.EnsureParams{Plan: plan})
	return w
}

func connect(t testing.TB, addr string) *pubsub.Client {
	t.Helper()
	client, err := pubsub.Connect(context.Background(), pubsub.Config{Project: devstack.DefaultProject, Emulator: addr})
	require.NoError(t, err)
	return client
}

func (w *world) redis() *redis.Client {
	w.t.Helper()
	rdb, err := consume.NewClient(w.rdbURL)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func (w *world) guard(opts consume.Options) *consume.Guard {
	w.t.Helper()
	g, err := consume.New(w.redis(), notifications.Consumer, opts)
	require.NoError(w.t, err)
	return g
}

// example registers the example's handler.
func (w *world) example(worker *consumer.Worker) *consumer.Worker {
	worker.Router.HandleBatch(notifications.EventType, w.pool, consume.BatchOptions{}, notifications.Write)
	return worker
}

// handled registers another handler of the example's event type.
func handled(worker *consumer.Worker, handler consume.Handler) *consumer.Worker {
	worker.Router.Handle(notifications.EventType, handler)
	return worker
}

// keeper reads what the guard wrote.
func (w *world) keeper() *idem.Keeper { return idem.New(w.redis(), consume.DefaultTTL) }

// worker runs the example, 16 events at once.
func (w *world) worker(cfg consumer.Config) *consumer.Worker {
	w.t.Helper()
	return w.example(w.bare(16, cfg))
}

// hasty is the same, but what a lost stream or a worker held is soon tried again.
func (w *world) hasty(cfg consumer.Config) *consumer.Worker {
	w.t.Helper()
	return w.example(consumer.New(shortSource(w.client, 16), w.guard(consume.Options{Lease: 2 * time.Second}), cfg))
}

// bare is a worker without handlers.
func (w *world) bare(concurrency int, cfg consumer.Config) *consumer.Worker {
	w.t.Helper()
	source := sourceOf(w.client, broker.SourceParams{Subscription: subscription, Concurrency: concurrency, Streams: min(concurrency, 16)})
	return consumer.New(source, w.guard(consume.Options{}), cfg)
}

// running runs a worker until the returned function stops it.
func (w *world) running(worker *consumer.Worker) (stop func() consumer.Report) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	type result struct {
		report consumer.Report
		err    error
	}
	done := make(chan result, 1)
	go func() {
		report, err := worker.Run(ctx)
		done <- result{report, err}
	}()
	stopped := false
	stop = func() consumer.Report {
		stopped = true
		cancel()
		r := <-done
		require.NoError(w.t, r.err)
		return r.report
	}
	w.t.Cleanup(func() {
		cancel()
		if !stopped {
			<-done
		}
	})
	return stop
}

// drained runs a worker until every message is acknowledged. Its Count would not do: a busy machine acknowledges some too
// late, these come again, and count.
func (w *world) drained(worker *consumer.Worker) consumer.Report {
	w.t.Helper()
	stop := w.running(worker)
	w.eventually(func() bool {
		return !slices.ContainsFunc(w.fake.Stored(), func(m *pstest.Message) bool { return m.Acks == 0 })
	}, "every message is acknowledged")
	return stop()
}

// message is one event as the publisher would send it.
func message(id uuid.UUID, eventType, data string) *gcppubsub.Message {
	return &gcppubsub.Message{
		Data: fmt.Appendf(nil, `{"version":1,"eventId":%q,"occurredAt":"2026-01-02T03:04:05Z","data":%s}`, id, data),
		Attributes: map[string]string{
			"event_id": id.String(), "event_type": eventType, "aggregate_type": "license",
			"aggregate_id": uuid.NewString(), "created_at": time.Now().UTC().Format(time.RFC3339Nano),
		},
	}
}

func license(id uuid.UUID, status, reason string) *gcppubsub.Message {
	data, _ := json.Marshal(map[string]string{
		"licenseId": uuid.NewString(), "storeId": uuid.NewString(), "status": status, "reason": reason,
	})
	return message(id, notifications.EventType, string(data))
}

func newIDs(n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
	}
	return ids
}

// publish sends the messages and waits until the broker has them.
func (w *world) publish(msgs ...*gcppubsub.Message) {
	w.t.Helper()
	p := w.client.PubSub().Publisher(topic)
	defer p.Stop()
	results := make([]*gcppubsub.PublishResult, len(msgs))
	for i, m := range msgs {
		results[i] = p.Publish(context.Background(), m)
	}
	for _, r := range results {
		_, err := r.Get(context.Background())
		require.NoError(w.t, err)
	}
}

// effects counts the notifications of each event.
func (w *world) effects() map[uuid.UUID]int {
	w.t.Helper()
	rows, err := w.pool.Query(context.Background(), `SELECT event_id, count(*) FROM notifications GROUP BY event_id`)
	require.NoError(w.t, err)
	defer rows.Close()
	found := map[uuid.UUID]int{}
	for rows.Next() {
		var id uuid.UUID
		var n int
		require.NoError(w.t, rows.Scan(&id, &n))
		found[id] = n
	}
	require.NoError(w.t, rows.Err())
	return found
}

// once is what effects must be: every event exactly one.
func once(ids []uuid.UUID) map[uuid.UUID]int {
	want := make(map[uuid.UUID]int, len(ids))
	for _, id := range ids {
		want[id] = 1
	}
	return want
}

// eventually waits for a condition that another goroutine brings about.
func (w *world) eventually(condition func() bool, what string) {
	w.t.Helper()
	require.Eventually(w.t, condition, 5*time.Minute, 10*time.Millisecond, what)
}
