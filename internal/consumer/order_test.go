package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

const (
	orderedWindow       = "ordered"
	orderedTopic        = "ordered-events"
	orderedSubscription = "ordered-events-sub"
	envKillAfter        = "OUTBOXCTL_TEST_KILL_AFTER"
)

// orderedWorld has a subscription that keeps order, and a table of what was applied.
func orderedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	plan := pubsub.Plan(map[string]string{"orders": orderedTopic}, nil)
	outboxtest.Ensure(t, w.client.Ensure, broker.EnsureParams{Plan: plan, Ordered: true})
	_, err := w.pool.Exec(t.Context(), `CREATE TABLE applied (place bigint GENERATED ALWAYS AS IDENTITY, key text, seq bigint)`)
	require.NoError(t, err)
	return w
}

// publishOrdered sends n events of so many keys, each key's in the order of their seq.
func (w *world) publishOrdered(n, keys int) []uuid.UUID {
	w.t.Helper()
	ids := newIDs(n)
	p := w.client.PubSub().Publisher(orderedTopic)
	p.EnableMessageOrdering = true
	defer p.Stop()
	results := make([]*gcppubsub.PublishResult, n)
	for i := range results {
		m := message(ids[i], notifications.EventType, "{}")
		m.OrderingKey = fmt.Sprint("key/", i%keys)
		m.Attributes["event_seq"] = strconv.Itoa(i + 1)
		results[i] = p.Publish(context.Background(), m)
	}
	for _, r := range results {
		_, err := r.Get(context.Background())
		require.NoError(w.t, err)
	}
	return ids
}

func orderedSource(client *pubsub.Client) broker.Source {
	return sourceOf(client, broker.SourceParams{Subscription: orderedSubscription, Concurrency: 64, Streams: 64, Comeback: minAckDeadline})
}

// applying writes what it gets into the table applied, and fails once in twenty times, half of them after the write.
func applying(pool *pgxpool.Pool, after func()) consume.Handler {
	return func(ctx context.Context, e consume.Event) error {
		luck := rand.IntN(40)
		if luck == 0 {
			return errors.New("no luck")
		}
		if _, err := pool.Exec(ctx, `INSERT INTO applied (key, seq) VALUES ($1, $2)`, e.OrderingKey, e.Seq); err != nil {
			return err
		}
		after()
		if luck == 1 {
			return errors.New("no luck afterwards")
		}
		return nil
	}
}

// applyInOrder is the main function of a worker that kills itself after some effects.
func applyInOrder() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv(envDatabase))
	rdb, err2 := consume.NewClient(os.Getenv(envRedis))
	client, err3 := pubsub.Connect(ctx, pubsub.Config{Project: devstack.DefaultProject, Emulator: os.Getenv(envPubSub)})
	left, err4 := strconv.ParseInt(os.Getenv(envKillAfter), 10, 64)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		panic(err)
	}
	guard, err := consume.New(rdb, notifications.Consumer, consume.Options{Lease: time.Second})
	if err != nil {
		panic(err)
	}
	var applied atomic.Int64
	worker := consumer.New(orderedSource(client), guard, consumer.Config{Database: pool, Log: zerolog.Nop()})
	worker.Router.HandleOthers(applying(pool, func() {
		if applied.Add(1) == left {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}))
	_, err = worker.Run(ctx)
	panic(errors.Join(err, errors.New("the worker survived")))
}

// breaks counts the events that were first applied after a later one of their key.
const breaks = `
WITH firsts AS (SELECT key, seq, min(place) AS place FROM applied GROUP BY key, seq)
SELECT count(*) FROM (SELECT seq < max(seq) OVER (PARTITION BY key ORDER BY place) AS late FROM firsts) AS f WHERE late`

// Later events of a key wait for one whose handler fails, also when the worker that has them dies.
func TestOrderBehindAFailingHandler(t *testing.T) {
	t.Parallel()
	w := orderedWorld(t)
	n, kills, workers := scaled(400, 12_000), scaled(2, 8), scaled(1, 2)
	w.publishOrdered(n, 40)
	var killed []*exec.Cmd
	for range kills {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), envWindow+"="+orderedWindow, envDatabase+"="+w.dbURL, envRedis+"="+w.rdbURL,
			envPubSub+"="+w.fake.Addr(), envKillAfter+"="+strconv.Itoa(n/4/kills))
		require.NoError(t, c.Start())
		if killed = append(killed, c); len(killed) == workers {
			for _, c := range killed {
				var exit *exec.ExitError
				require.ErrorAs(t, c.Wait(), &exit)
				require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
			}
			killed = nil
		}
	}
	worker := consumer.New(orderedSource(w.client), w.guard(consume.Options{Lease: time.Second}), consumer.Config{Database: w.pool})
	worker.Router.HandleOthers(applying(w.pool, func() {}))
	stop := w.running(worker)
	w.eventually(func() bool { return w.count(`SELECT count(DISTINCT seq) FROM applied`) == n }, "everything is applied")
	w.eventually(func() bool { return w.count(`SELECT count(*) FROM outbox_consumer_failures`) == 0 }, "and nothing fails any more")
	stop()
	require.Zero(t, w.count(breaks), "breaks of %d", n)
	t.Logf("%d events, %d applied twice, %d kills", n, w.count(`SELECT count(*) FROM applied`)-n, kills)
}

// eager hands out messages as Google's client does those of the service: the next one of a key when the last one's callback
// has returned, settled or not. When one is given back, it and all that follow it come again.
type eager struct{ keys, each int }

func (eager) Permanent(error) bool { return false }
func (eager) About() broker.About  { return broker.About{Ordered: true, MaxDeliveries: 100} }

func (s eager) Receive(ctx context.Context, f func(broker.Delivery)) error {
	var all sync.WaitGroup
	for key := range s.keys {
		ids := newIDs(s.each)
		all.Go(func() {
			back := make(chan int, 10*s.each)
			var acked atomic.Int64
			for next := 0; int(acked.Load()) < s.each && ctx.Err() == nil; {
				select {
				case next = <-back:
				default:
				}
				if next == s.each {
					select {
					case next = <-back:
					case <-ctx.Done():
						return
					}
				}
				at := next
				m := message(ids[at], notifications.EventType, "{}")
				m.Attributes["event_seq"] = strconv.Itoa(at + 1)
				f(broker.Delivery{
					Message:    settling{ack: func() { acked.Add(1) }, nack: func() { back <- at }},
					Attributes: m.Attributes, Body: m.Data, OrderingKey: fmt.Sprint("key/", key), Attempt: 1,
				})
				next++
			}
		})
	}
	all.Wait()
	<-ctx.Done()
	return nil
}

type settling struct{ ack, nack func() }

func (s settling) Ack()  { s.ack() }
func (s settling) Nack() { s.nack() }

// What the client has already received of a key must not pass a message that failed.
func TestOrderOfWhatIsReceivedAlready(t *testing.T) {
	t.Parallel()
	w := orderedWorld(t)
	source := eager{keys: 20, each: scaled(50, 500)}
	worker := consumer.New(source, w.guard(consume.Options{}), consumer.Config{Database: w.pool})
	worker.Router.HandleOthers(applying(w.pool, func() {}))
	stop := w.running(worker)
	w.eventually(func() bool {
		return w.count(`SELECT count(*) FROM (SELECT DISTINCT key, seq FROM applied) AS d`) == source.keys*source.each
	}, "everything is applied")
	stop()
	require.Zero(t, w.count(breaks))
}

// Keys that fail keep no place from others, and their handlers count among those that run at once.
func TestFailingKeysKeepNoPlace(t *testing.T) {
	t.Parallel()
	w := orderedWorld(t)
	const places, keys = 2, 9
	source := sourceOf(w.client, broker.SourceParams{Subscription: orderedSubscription, Concurrency: places, Streams: places, Comeback: minAckDeadline})
	worker := consumer.New(source, w.guard(consume.Options{}), consumer.Config{Concurrency: places})
	var failing sync.Map
	var heal atomic.Bool
	var running, most atomic.Int64
	worker.Router.HandleOthers(func(ctx context.Context, e consume.Event) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		if !heal.Load() && e.Seq < keys {
			failing.Store(e.Seq, true)
			return errors.New("not yet")
		}
		_, err := w.pool.Exec(ctx, `INSERT INTO applied (key, seq) VALUES ($1, $2)`, e.OrderingKey, e.Seq)
		return err
	})
	w.publishOrdered(3*keys, keys)
	stop := w.running(worker)
	good := fmt.Sprintf(`SELECT count(*) FROM applied WHERE key = 'key/%d'`, keys-1)
	w.eventually(func() bool { return w.count(good) == 3 }, "the key that does not fail goes on")
	failed := func() (n int) {
		failing.Range(func(any, any) bool { n++; return true })
		return n
	}
	w.eventually(func() bool { return failed() == keys-1 }, "while all others fail")
	require.Equal(t, 3, w.count(`SELECT count(*) FROM applied`), "what is behind a failed event waits")
	heal.Store(true)
	w.eventually(func() bool { return w.count(`SELECT count(*) FROM applied`) == 3*keys }, "everything is applied")
	stop()
	require.Zero(t, w.count(breaks))
	require.LessOrEqual(t, most.Load(), int64(places))
}

// An event that is given up lets the later ones of its key go on.
func TestOrderBehindAnEventThatIsGivenUp(t *testing.T) {
	t.Parallel()
	w := orderedWorld(t)
	source := sourceOf(w.client, broker.SourceParams{Subscription: orderedSubscription, Concurrency: 64, Streams: 64})
	worker := consumer.New(source, w.guard(consume.Options{}), consumer.Config{Database: w.pool, MaxAttempts: 3})
	var tries []int
	worker.Router.HandleOthers(func(ctx context.Context, e consume.Event) error {
		if e.Seq == 2 {
			tries = append(tries, e.Attempt)
			return errors.New("never")
		}
		_, err := w.pool.Exec(ctx, `INSERT INTO applied (key, seq) VALUES ($1, $2)`, e.OrderingKey, e.Seq)
		return err
	})
	ids := w.publishOrdered(5, 1)
	_, err := w.pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
		VALUES ($1, 'license_status_changed', 'license', gen_random_uuid(), '{}', now())`, ids[1])
	require.NoError(t, err)
	stop := w.running(worker)
	w.eventually(func() bool { return w.count(`SELECT count(*) FROM applied`) == 4 }, "the others go on")
	stop()
	require.Equal(t, []int{1, 2, 3}, tries)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM outbox_consumer_failures WHERE state = 'gave_up' AND attempts = 3 AND ordering_key = 'key/0'
		AND last_error = 'never' AND subscription = '' AND event_type = 'license_status_changed'`))
}

func (w *world) count(sql string) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.pool.QueryRow(context.Background(), sql).Scan(&n))
	return n
}
