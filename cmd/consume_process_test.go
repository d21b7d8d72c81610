package cmd_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// consumeRig is everything a consumer needs, and consumers as real processes.
type consumeRig struct {
	t      *testing.T
	db     *outboxtest.Database
	redis  *outboxtest.RedisDB
	pubsub *devstack.PubSub
}

const consumeTopic = "the-domain"

func newConsumeRig(t *testing.T) *consumeRig {
	t.Helper()
	r := &consumeRig{t: t, db: outboxtest.DB(t), redis: outboxtest.Redis(t), pubsub: outboxtest.PubSub(t)}
	require.NoError(t, notifications.CreateTable(t.Context(), r.db.Pool))
	client := r.connect()
	defer client.Close()
	outboxtest.Ensure(t, client.Ensure, broker.EnsureParams{Plan: pubsub.Plan(map[string]string{"domain": consumeTopic}, nil)})
	return r
}

func (r *consumeRig) connect() *pubsub.Client {
	r.t.Helper()
	client, err := pubsub.Connect(r.t.Context(), pubsub.Config{Project: r.pubsub.Project, Emulator: r.pubsub.Addr()})
	require.NoError(r.t, err)
	return client
}

func (r *consumeRig) start(args ...string) *publisher {
	r.t.Helper()
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(), "OUTBOXCTL_DATABASE_URL=" + r.db.URL, "OUTBOXCTL_REDIS_URL=" + r.redis.URL,
		"OUTBOXCTL_PUBSUB_PROJECT=" + r.pubsub.Project, "OUTBOXCTL_PUBSUB_EMULATOR=" + r.pubsub.Addr(),
		"OUTBOXCTL_PUBSUB_SUBSCRIPTION=" + consumeTopic + "-sub", "OUTBOXCTL_CONSUME_HTTP_ADDR=127.0.0.1:0",
	}
	return startProcess(r.t, env, append([]string{"consume", "--example"}, args...)...)
}

// publish sends n events that each ask for a notice.
func (r *consumeRig) publish(n int) []uuid.UUID {
	r.t.Helper()
	client := r.connect()
	defer client.Close()
	publisher := client.PubSub().Publisher(consumeTopic)
	defer publisher.Stop()
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
		result := publisher.Publish(r.t.Context(), &gcppubsub.Message{
			Data: fmt.Appendf(nil, `{"version":1,"eventId":%q,"occurredAt":"2026-01-02T03:04:05Z","data":{"licenseId":%q,"storeId":%q,"status":"pending"}}`,
				ids[i], uuid.New(), uuid.New()),
			Attributes: map[string]string{"event_id": ids[i].String(), "event_type": "license_status_changed"},
		})
		_, err := result.Get(r.t.Context())
		require.NoError(r.t, err)
	}
	return ids
}

func (r *consumeRig) count(query string, args ...any) (n int) {
	r.t.Helper()
	require.NoError(r.t, r.db.Pool.QueryRow(r.t.Context(), query, args...).Scan(&n))
	return n
}

// states counts what Redis knows about the events.
func (r *consumeRig) states(ids []uuid.UUID) map[consume.State]int {
	r.t.Helper()
	entries, err := idem.New(r.redis.Client, consume.DefaultTTL).LookupMany(r.t.Context(), []string{"compliance"}, ids)
	require.NoError(r.t, err)
	states := map[consume.State]int{}
	for _, e := range entries {
		states[e.State]++
	}
	return states
}

// holdEffects keeps every handler in the middle of its transaction until release.
func (r *consumeRig) holdEffects() (release func()) {
	r.t.Helper()
	tx, err := r.db.Pool.Begin(r.t.Context())
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = tx.Rollback(r.t.Context()) }) // usually over
	_, err = tx.Exec(r.t.Context(), `LOCK TABLE notifications IN SHARE MODE`)
	require.NoError(r.t, err)
	return func() { require.NoError(r.t, tx.Rollback(r.t.Context())) }
}

// held counts the events that are in their handlers, in one transaction or several, none of which can go on.
func (r *consumeRig) held(ids []uuid.UUID) int {
	r.t.Helper()
	if r.count(heldEffects) == 0 {
		return 0
	}
	return r.states(ids)[consume.StateProcessing]
}

const heldEffects = `SELECT count(*) FROM pg_locks WHERE relation = 'notifications'::regclass AND NOT granted
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// Told to stop in the middle of its work, a consumer finishes what it has begun and gives back the rest.
func TestConsumeStopsInTheMiddleOfItsWork(t *testing.T) {
	t.Parallel()
	const concurrency = 8
	// What is on its way to a worker that stops comes back when its ack deadline has passed, so only one of them waits for it.
	for sig, events := range map[syscall.Signal]int{syscall.SIGTERM: concurrency + 22, syscall.SIGINT: concurrency} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			r := newConsumeRig(t)
			ids := r.publish(events)
			release := r.holdEffects()
			p := r.start("--concurrency", fmt.Sprint(concurrency))
			eventually(t, "every slot is in its handler", func() bool { return r.held(ids) == concurrency })
			code, _ := p.get("/healthz")
			require.Equal(t, 200, code)
			code, _ = p.get("/readyz")
			require.Equal(t, 200, code)
			_, metrics := p.get("/metrics")
			require.Contains(t, metrics, `outbox_consumer_in_flight{consumer="compliance"} 8`)
			for _, of := range []string{"outbox_build_info{", "go_goroutines", "process_open_fds"} {
				require.Contains(t, metrics, "\n"+of, "of the process, as a publisher has it")
			}

			p.signal(sig)
			eventually(t, "it has heard", func() bool { return len(p.said("waiting for the handlers under way")) == 1 })
			release()
			require.Equal(t, 128+int(sig), p.wait())
			last := p.said("stopped")
			require.Len(t, last, 1)
			require.EqualValues(t, concurrency, last[0]["processed"])
			require.Equal(t, concurrency, r.count(`SELECT count(*) FROM notifications`))
			states := r.states(ids)
			require.Equal(t, concurrency, states[consume.StateProcessed])
			require.Zero(t, states[consume.StateProcessing], "no key is left behind")
			if rest := events - concurrency; rest > 0 {
				next := r.start("--count", fmt.Sprint(rest))
				require.Zero(t, next.wait(), "nothing is lost")
			}
			r.once(ids)
		})
	}
}

// A second signal ends a consumer at once, and undoes what it had begun.
func TestASecondSignalEndsAConsumer(t *testing.T) {
	t.Parallel()
	const events = 5
	r := newConsumeRig(t)
	ids := r.publish(events)
	release := r.holdEffects()
	p := r.start()
	eventually(t, "the handlers are at work", func() bool { return r.held(ids) == events })
	p.signal(syscall.SIGTERM)
	eventually(t, "it has heard", func() bool { return len(p.said("waiting for the handlers under way")) == 1 })
	p.signal(syscall.SIGTERM)
	require.Equal(t, 128+int(syscall.SIGTERM), p.wait())
	require.Empty(t, p.said("stopped"))
	release()
	eventually(t, "its transactions are over", func() bool { return r.count(heldEffects) == 0 })
	require.Zero(t, r.count(`SELECT count(*) FROM notifications`))
	require.Zero(t, r.states(ids)[consume.StateProcessed], "nothing passes for done")
}

// once requires one notice for each event.
func (r *consumeRig) once(ids []uuid.UUID) {
	r.t.Helper()
	rows, err := r.db.Pool.Query(r.t.Context(), `SELECT event_id::text, count(*) FROM notifications GROUP BY event_id`)
	require.NoError(r.t, err)
	type effect struct {
		ID string
		N  int
	}
	effects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[effect])
	require.NoError(r.t, err)
	var want []effect
	for _, id := range ids {
		want = append(want, effect{id.String(), 1})
	}
	require.ElementsMatch(r.t, want, effects)
}
