package broker_test

import (
	"context"
	"net"
	nethttp "net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/http"
	"github.com/outboxctl/outboxctl/internal/broker/kafka"
	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/kafkatest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/natstest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/pubsubtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/rabbittest"
)

var node *rabbittest.Node

type withNode struct{ m *testing.M }

func (w withNode) Run() int { return rabbittest.Run(w.m, &node) }

func TestMain(m *testing.M) {
	os.Exit(outboxtest.Run(withNode{m}, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")))
}

const (
	publishTimeout = 3 * time.Second
	// patience is how long anything may take on a busy machine.
	patience = 90 * time.Second
	// outage is how many questions a destination that is away leaves unanswered. Between them are up to five seconds, in which
	// an event would use up its attempts many times over.
	outage = 5
	// maxAttempts leaves an event, beside the one that an outage may cost it, those of a machine so busy that a request takes
	// longer than publishTimeout.
	maxAttempts = 4
)

// client opens a destination by its settings, as a command does.
func client(t *testing.T, kind broker.Kind, settings map[string]string) broker.Broker {
	t.Helper()
	b, err := kind.Open(t.Context(), broker.Params{PublishTimeout: publishTimeout, Setting: func(name string) string {
		if value, ok := settings[name]; ok {
			return value
		}
		for _, s := range kind.Settings {
			if s.Name == name {
				return s.Default
			}
		}
		return ""
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// destinations are those that can be away.
func destinations() map[string]func(*testing.T) dispatchtest.Broker {
	return map[string]func(*testing.T) dispatchtest.Broker{
		"pubsub": pubsubtest.Broker("orders", "projects/p/topics/orders", func(t *testing.T) (*devstack.PubSub, dispatch.Publisher) {
			fake := outboxtest.PubSub(t)
			b := client(t, pubsub.Kind(), map[string]string{"pubsub.project": "p", "pubsub.emulator": fake.Addr()})
			topics := map[string]string{"orders": "orders"}
			_, err := b.Ensure(t.Context(), broker.EnsureParams{Plan: b.Plan(topics, nil)})
			require.NoError(t, err)
			return fake, b.NewPublisher(topics)
		}),
		"nats": natstest.Broker(func(t *testing.T, s *natstest.Server, subjects map[string]string) dispatch.Publisher {
			return client(t, nats.Kind(), map[string]string{"nats.url": s.ClientURL()}).NewPublisher(subjects)
		}),
		"kafka": kafkatest.Broker(func(t *testing.T, c *kfake.Cluster, topics map[string]string) dispatch.Publisher {
			settings := map[string]string{"kafka.brokers": strings.Join(c.ListenAddrs(), ","), "kafka.compression": "none"}
			return client(t, kafka.Kind(), settings).NewPublisher(topics)
		}),
		"rabbitmq": node.Broker(func(t *testing.T, addr string, topics map[string]string) dispatch.Publisher {
			return client(t, rabbitmq.Kind(), map[string]string{"rabbitmq.url": "amqp://" + rabbittest.Admin + "@" + addr + "/"}).NewPublisher(topics)
		}),
		"http": service,
	}
}

// service is one that takes events.
func service(t *testing.T) dispatchtest.Broker {
	var (
		mu     sync.Mutex
		stored []dispatch.Message
		gate   atomic.Pointer[func()]
	)
	addr := "127.0.0.1:0"
	listen := func() *nethttp.Server {
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		addr = l.Addr().String()
		s := &nethttp.Server{Handler: nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
			if wait := gate.Load(); wait != nil {
				(*wait)()
			}
			mu.Lock()
			defer mu.Unlock()
			stored = append(stored, dispatch.Message{EventID: r.Header.Get("webhook-id")})
		})}
		go func() { _ = s.Serve(l) }()
		return s
	}
	server := listen()
	t.Cleanup(func() { _ = server.Close() })
	return dispatchtest.Broker{
		Publisher: client(t, http.Kind(), map[string]string{"http.url": "http://" + addr, "http.timeout": "500ms"}).NewPublisher(map[string]string{"orders": "orders"}),
		Topic:     "orders",
		Stored: func() []dispatch.Message {
			mu.Lock()
			defer mu.Unlock()
			return append([]dispatch.Message(nil), stored...)
		},
		Away: func() func() {
			require.NoError(t, server.Close())
			return func() { server = listen() }
		},
		Hold: func() (<-chan struct{}, func()) {
			arrived, open := make(chan struct{}, 1), make(chan struct{})
			wait := func() {
				select {
				case arrived <- struct{}{}:
				default:
				}
				<-open
			}
			gate.Store(&wait)
			return arrived, sync.OnceFunc(func() { close(open) })
		},
	}
}

// watched counts what a destination did not answer.
type watched struct {
	dispatch.Publisher
	unanswered, notReady atomic.Int64
}

func (w *watched) Publish(ctx context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	results := w.Publisher.Publish(ctx, topic, msgs)
	for _, r := range results {
		if r.Err != nil {
			w.unanswered.Add(1)
		}
	}
	return results
}

func (w *watched) Ready(ctx context.Context, topic string) error {
	err := w.Publisher.Ready(ctx, topic)
	if err != nil {
		w.notReady.Add(1)
	}
	return err
}

// day is a running dispatcher with its outbox and a destination.
type day struct {
	t    *testing.T
	pool *pgxpool.Pool
	dispatchtest.Broker
	seen *watched
}

func begin(t *testing.T, b dispatchtest.Broker) *day {
	t.Helper()
	db := outboxtest.DB(t)
	types, err := catalogue.New("day", catalogue.Type{Name: "order_created", Topic: b.Topic, Aggregate: "checkout_group", Empty: catalogue.Allow})
	require.NoError(t, err)
	require.NoError(t, types.Apply(t.Context(), db.Pool))
	d := &day{t: t, pool: db.Pool, Broker: b, seen: &watched{Publisher: b.Publisher}}
	dispatcher, err := dispatch.New(t.Context(), dispatch.Config{
		URL: db.URL, Publisher: d.seen, Catalogue: types,
		Tuning: dispatch.Tuning{
			MaxAttempts: maxAttempts, BackoffBase: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond, PollInterval: 20 * time.Millisecond,
			PublishTimeout: publishTimeout, Lease: 20 * time.Second,
		},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- dispatcher.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		dispatcher.Close()
	})
	return d
}

func (d *day) emit(n int) {
	d.t.Helper()
	_, err := d.pool.Exec(d.t.Context(), `SELECT outbox_emit('order_created', NULL, gen_random_uuid(), '{}') FROM generate_series(1, $1)`, n)
	require.NoError(d.t, err)
}

func (d *day) count(what string) (n int) {
	d.t.Helper()
	require.NoError(d.t, d.pool.QueryRow(d.t.Context(), `SELECT count(*) FROM `+what).Scan(&n))
	return n
}

func (d *day) until(what string, state func() bool) {
	d.t.Helper()
	if !assert.Eventually(d.t, state, patience, 20*time.Millisecond, what) {
		d.t.Fatalf("%d messages unanswered, %d times not ready", d.seen.unanswered.Load(), d.seen.notReady.Load())
	}
}

// drained waits until n events in all are published, none of which has died, and looks that each was stored.
func (d *day) drained(n int) {
	d.t.Helper()
	d.until("all are published", func() bool { return d.count("outbox_events WHERE published_at IS NOT NULL") == n })
	require.Zero(d.t, d.count("outbox_dlq"), "an outage is no event's fault")
	ids := map[string]bool{}
	for _, m := range d.Stored() {
		ids[m.EventID] = true
	}
	require.Len(d.t, ids, n)
}

// A destination that is away for a long time, or does not answer in time, costs no event its life: those on their way lose one
// attempt at most, those behind them none, and all are published afterwards.
func TestBadDay(t *testing.T) {
	t.Parallel()
	for name, open := range destinations() {
		t.Run(name+" away", func(t *testing.T) {
			t.Parallel()
			d := begin(t, open(t))
			d.emit(20)
			d.drained(20)
			back := d.Away()
			d.emit(500)
			d.until("it is away for long", func() bool { return d.seen.notReady.Load() >= outage })
			require.Zero(t, d.count("outbox_dlq"))
			require.Zero(t, d.count("outbox_events WHERE attempt_count > 1"), "in flight when it went")
			back()
			d.drained(520)
		})
		t.Run(name+" slow", func(t *testing.T) {
			t.Parallel()
			d := begin(t, open(t))
			arrived, release := d.Hold()
			defer release()
			d.emit(20)
			<-arrived
			d.until("its time is over", func() bool { return d.seen.unanswered.Load() > 0 })
			require.Zero(t, d.count("outbox_dlq"))
			release()
			d.drained(20)
		})
	}
}
