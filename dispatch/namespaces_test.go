package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/migrate"
)

// document is the catalogue of a namespace with types on one topic, each under its name and the former ones behind it.
func document(namespace, topic string, types ...[]string) catalogue.Document {
	d := catalogue.Document{Name: topic, Namespace: namespace, Topics: map[string]string{topic: topic}}
	for _, names := range types {
		d.Types = append(d.Types, catalogue.Type{
			Name: names[0], Was: names[1:], Topic: topic, Aggregate: catalogue.None, Schema: catalogue.Any, Envelope: catalogue.None,
		})
	}
	return d
}

// namespacedOutbox is a database with the catalogues of several namespaces.
func namespacedOutbox(t *testing.T, documents ...catalogue.Document) (*outboxtest.Database, *emit.Emitter) {
	t.Helper()
	db := outboxtest.EmptyDB(t)
	_, err := migrate.Up(t.Context(), db.Pool, migrate.Options{Types: migrate.Text})
	require.NoError(t, err)
	return db, applyDocuments(t, db.Pool, documents...)
}

func applyDocuments(t *testing.T, pool *pgxpool.Pool, documents ...catalogue.Document) *emit.Emitter {
	t.Helper()
	types, err := catalogue.Build(documents...)
	require.NoError(t, err)
	require.NoError(t, types.Apply(t.Context(), pool))
	return emit.New(types)
}

func emitIn(t *testing.T, pool *pgxpool.Pool, emitter *emit.Emitter, n int, e emit.Event) {
	t.Helper()
	events := make([]emit.Event, n)
	for i := range events {
		events[i] = e
		events[i].Data = map[string]int{"n": i}
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := emitter.EmitAll(t.Context(), tx, events)
		return err
	}))
}

// partly is a broker on which some topics are away.
type partly struct {
	mu    sync.Mutex
	away  map[string]error
	sent  map[string]int // messages that were offered, by topic
	asked map[string]int // questions whether a topic is ready
}

func newPartly(away map[string]error) *partly {
	return &partly{away: away, sent: map[string]int{}, asked: map[string]int{}}
}

func (p *partly) Limits(string) wire.Limits {
	return wire.Limits{MessageBytes: 1 << 20, Attributes: 50, AttributeNameBytes: 100, AttributeValueBytes: 1000}
}

func (p *partly) Publish(_ context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent[topic] += len(msgs)
	results := make([]dispatch.Result, len(msgs))
	for i, m := range msgs {
		if results[i].Err = p.away[topic]; results[i].Err == nil {
			results[i].MessageID = m.EventID
		}
	}
	return results
}

func (p *partly) Ready(_ context.Context, topic string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[topic]++
	return p.away[topic]
}

func (p *partly) counts(topic string) (sent, asked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent[topic], p.asked[topic]
}

func (p *partly) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = nil
}

// run starts a dispatcher that ends with the test.
func run(t *testing.T, cfg dispatch.Config) *dispatch.Dispatcher {
	t.Helper()
	d, err := dispatch.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return d
}

// counted waits until so many events are as the condition says.
func counted(t *testing.T, pool *pgxpool.Pool, want int, condition string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events WHERE `+condition).Scan(&n))
		return n == want
	}, time.Minute, 20*time.Millisecond, condition)
}

// One type goes to another topic in the namespace shop. While that is away its events are left alone, and only they.
func TestATopicIsLeftAloneInItsNamespaceOnly(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]error{
		"unreachable":   dispatch.NewFailure(dispatch.Retryable, "Unavailable", errors.New("away")),
		"misconfigured": dispatch.NewFailure(dispatch.Misconfigured, "NotFound", errors.New("no such topic")),
	} {
		for topic, others := range map[string][2]string{"shop-orders": {"shop", "default"}, "orders": {"default", "shop"}} {
			t.Run(name+" "+topic, func(t *testing.T) {
				t.Parallel()
				db, emitter := namespacedOutbox(t, document("*", "orders", []string{"order.ready"}), document("shop", "shop-orders", []string{"order.ready"}))
				for _, namespace := range []string{"default", "shop"} {
					emitIn(t, db.Pool, emitter, 20, emit.Event{Type: "order.ready", Namespace: namespace})
				}
				broker := newPartly(map[string]error{topic: away})
				run(t, dispatch.Config{
					URL: db.URL, Publisher: broker,
					Tuning: dispatch.Tuning{MaxAttempts: 3, BackoffBase: time.Millisecond, BackoffMax: time.Millisecond, PollInterval: 10 * time.Millisecond},
				})
				counted(t, db.Pool, 20, "published_at IS NOT NULL AND namespace = '"+others[1]+"'")
				require.Eventually(t, func() bool { _, asked := broker.counts(topic); return asked >= 4 }, time.Minute, 10*time.Millisecond)
				sent, _ := broker.counts(topic)
				require.LessOrEqual(t, sent, 20, "offered once, then left alone")
				emitIn(t, db.Pool, emitter, 5, emit.Event{Type: "order.ready", Namespace: others[1]})
				counted(t, db.Pool, 25, "published_at IS NOT NULL AND namespace = '"+others[1]+"'")
				broker.heal()
				counted(t, db.Pool, 20, "published_at IS NOT NULL AND namespace = '"+others[0]+"'")
			})
		}
	}
}

// A pause of a topic holds back the types that go there, in the namespaces where they do.
func TestAPausedTopicHoldsItsNamespacesOnly(t *testing.T) {
	t.Parallel()
	for topic, namespaces := range map[string][2]string{"shop-orders": {"shop", "default"}, "orders": {"default", "shop"}} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			db, emitter := namespacedOutbox(t, document("*", "orders", []string{"order.ready"}), document("shop", "shop-orders", []string{"order.ready"}))
			for _, namespace := range namespaces {
				emitIn(t, db.Pool, emitter, 3, emit.Event{Type: "order.ready", Namespace: namespace})
			}
			pause(t, db.Pool, "topic", topic)
			require.Equal(t, int64(3), once(t, db.URL).Published)
			counted(t, db.Pool, 3, "published_at IS NULL AND namespace = '"+namespaces[0]+"'")
		})
	}
}

func pause(t *testing.T, pool *pgxpool.Pool, kind, value string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `SELECT outbox_pause($1, $2, NULL, 'ana', NULL)`, kind, value)
	require.NoError(t, err)
}

// once publishes what may be published.
func once(t *testing.T, url string) dispatch.Totals {
	t.Helper()
	d, err := dispatch.New(t.Context(), dispatch.Config{URL: url, Publisher: newPartly(nil)})
	require.NoError(t, err)
	defer d.Close()
	done, err := d.Once(t.Context())
	require.NoError(t, err)
	return done
}

// A type that has another name now is one type: a pause by either name holds back what is stored under both.
func TestAPausedTypeIsHeldUnderAllItsNames(t *testing.T) {
	t.Parallel()
	for _, paused := range []string{"order.prepared", "order.ready"} {
		t.Run(paused, func(t *testing.T) {
			t.Parallel()
			db, former := namespacedOutbox(t, document("*", "orders", []string{"order.ready"}))
			emitIn(t, db.Pool, former, 2, emit.Event{Type: "order.ready"})
			emitIn(t, db.Pool, former, 2, emit.Event{Type: "order.ready", Namespace: "shop"})
			// The namespace shop goes on with a type of the old name.
			now := applyDocuments(t, db.Pool, document("*", "orders", []string{"order.prepared", "order.ready"}), document("shop", "orders", []string{"order.ready"}))
			emitIn(t, db.Pool, now, 2, emit.Event{Type: "order.prepared"})
			pause(t, db.Pool, "type", paused)
			want := int64(2) // shop's
			if paused == "order.ready" {
				want = 0
			}
			require.Equal(t, want, once(t, db.URL).Published)
			counted(t, db.Pool, 4, "published_at IS NULL AND namespace = 'default'")
		})
	}
}

// The topic is part of the ordering key of an aggregate. A type is not moved while events wait in it, dead ones included: what
// is emitted afterwards would overtake them.
func TestATypeIsNotMovedBesideItsOrder(t *testing.T) {
	t.Parallel()
	on := func(topic string) catalogue.Document {
		d := document("*", topic, []string{"order.ready"})
		d.Name, d.Types[0].Aggregate, d.Types[0].Order = "shop", "order", catalogue.OrderAggregate
		return d
	}
	db, emitter := namespacedOutbox(t, on("orders"))
	emitIn(t, db.Pool, emitter, 1, emit.Event{Type: "order.ready", AggregateID: "42"})
	moved, err := catalogue.Build(on("bulk"))
	require.NoError(t, err)
	require.ErrorIs(t, moved.Apply(t.Context(), db.Pool), catalogue.ErrWaiting)
	_, err = db.Pool.Exec(t.Context(), `UPDATE outbox_events SET dead_at = now()`)
	require.NoError(t, err)
	require.ErrorContains(t, moved.Apply(t.Context(), db.Pool), "order.ready from orders to bulk (1)")
	_, err = db.Pool.Exec(t.Context(), `UPDATE outbox_events SET dead_at = NULL`)
	require.NoError(t, err)
	require.Equal(t, int64(1), once(t, db.URL).Published)
	require.NoError(t, moved.Apply(t.Context(), db.Pool))
	emitIn(t, db.Pool, emit.New(moved), 1, emit.Event{Type: "order.ready", AggregateID: "42"})
	counted(t, db.Pool, 2, "ordering_key IN ('default/orders/order/42', 'default/bulk/order/42')")
}

// A publisher whose catalogue is not the recorded one leaves a type alone once an event does not fit, and says so.
func TestAPublisherSaysWhichTypesItLeavesAlone(t *testing.T) {
	t.Parallel()
	db, emitter := namespacedOutbox(t, document("*", "orders", []string{"order.ready"}))
	emitIn(t, db.Pool, emitter, 1, emit.Event{Type: "order.ready", Namespace: "shop"})
	strict := document("*", "orders", []string{"order.ready"})
	strict.Types[0].Schema = `{"type": "object", "required": ["door"]}`
	own, err := catalogue.Build(strict)
	require.NoError(t, err)
	metrics := prometheus.NewRegistry()
	d, err := dispatch.New(t.Context(), dispatch.Config{URL: db.URL, Catalogue: own, Publisher: newPartly(nil), Metrics: metrics})
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Ready(t.Context()))
	_, err = d.Once(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, d.Ready(t.Context()), "catalogue: leaves shop order.ready alone")
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP outbox_stood_down_types Event types that this publisher leaves alone: an event does not fit its catalogue, and the recorded one says something else.
# TYPE outbox_stood_down_types gauge
outbox_stood_down_types 1
`), "outbox_stood_down_types"))
}

// A dedupe key that is taken under a type's former name is taken.
func TestADedupeKeyIsTakenUnderAFormerName(t *testing.T) {
	t.Parallel()
	db, former := namespacedOutbox(t, document("*", "orders", []string{"order.ready"}))
	emitOne := func(emitter *emit.Emitter, e emit.Event) (got emit.Result) {
		e.Data, e.DedupeKey = map[string]int{"n": 1}, "k"
		require.NoError(t, pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) (err error) {
			got, err = emitter.Emit(t.Context(), tx, e)
			return err
		}))
		return got
	}
	first := emitOne(former, emit.Event{Type: "order.ready"})
	shops := emitOne(former, emit.Event{Type: "order.ready", Namespace: "shop"})
	now := applyDocuments(t, db.Pool, document("*", "orders", []string{"order.prepared", "order.ready"}), document("shop", "orders", []string{"order.ready"}))
	again := emitOne(now, emit.Event{Type: "order.prepared"})
	require.True(t, again.AlreadyEnqueued)
	require.Equal(t, first.ID, again.ID)
	require.False(t, emitOne(now, emit.Event{Type: "order.prepared", Namespace: "till"}).AlreadyEnqueued, "the key of another namespace")
	require.False(t, emitOne(now, emit.Event{Type: "order.prepared", Namespace: "shop"}).AlreadyEnqueued, "there the old name is another type")
	require.Equal(t, shops.ID, emitOne(now, emit.Event{Type: "order.ready", Namespace: "shop"}).ID)
	require.Equal(t, first.ID, emitOne(now, emit.Event{Type: "order.prepared"}).ID)
}
