package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// trickle publishes one event every few milliseconds until told to stop, and
// returns what it published.
func (w *world) trickle(ctx context.Context) (ids func() []uuid.UUID) {
	w.t.Helper()
	done := make(chan []uuid.UUID, 1)
	p := w.client.PubSub().Publisher(topic)
	go func() {
		var sent []uuid.UUID
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				p.Stop()
				done <- sent
				return
			case <-tick.C:
			}
			id := uuid.Must(uuid.NewV7())
			r := p.Publish(context.Background(), license(id, "pending", ""))
			if _, err := r.Get(context.Background()); err != nil {
				w.t.Error(err)
				done <- sent
				return
			}
			sent = append(sent, id)
		}
	}()
	return func() []uuid.UUID { return <-done }
}

func TestRedisAwayUnderLoad(t *testing.T) {
	t.Parallel()
	server, rdb := outboxtest.RedisServer(t)
	w := worldOn(t, outboxtest.DB(t), rdb.URL)
	var begun atomic.Int64
	worker := w.hasty(consumer.Config{Hooks: consumer.Hooks{AfterBegin: func(uuid.UUID) { begun.Add(1) }}})
	stop := w.running(worker)
	loading, cancel := context.WithCancel(t.Context())
	defer cancel()
	ids := w.trickle(loading)
	w.eventually(func() bool { return begun.Load() > 100 }, "load arrives")
	require.NoError(t, worker.Receiving(t.Context()))

	require.NoError(t, server.Kill())
	w.eventually(func() bool { return worker.Receiving(t.Context()) != nil }, "the outage is noticed")
	require.Error(t, w.guard(consume.Options{}).Announce(t.Context()))
	require.NoError(t, worker.Healthy(t.Context()))
	// From here on nothing may run until Redis is back; what was under way has ended.
	before, guarded := len(w.effects()), begun.Load()
	outage := time.NewTimer(time.Duration(scaled(2, 30)) * time.Second)
	<-outage.C
	require.Equal(t, guarded, begun.Load(), "no handler ran unguarded")
	require.Len(t, w.effects(), before, "no effect happened unguarded")

	require.NoError(t, server.Restart(t.Context()))
	w.eventually(func() bool { return begun.Load() > guarded+100 }, "work resumes by itself")
	cancel()
	sent := ids()
	w.eventually(func() bool { return len(w.effects()) == len(sent) }, "nothing is lost")
	stop()
	require.Equal(t, once(sent), w.effects())
	require.Empty(t, w.deadLettered(), "an outage costs no message its life")
}

func TestDatabaseAwayUnderLoad(t *testing.T) {
	t.Parallel()
	server, db := outboxtest.Postgres(t, devstack.PostgresParams{})
	w := worldOn(t, db, outboxtest.Redis(t).URL)
	var done atomic.Int64
	worker := w.hasty(consumer.Config{Hooks: consumer.Hooks{AfterDone: func(uuid.UUID) { done.Add(1) }}})
	stop := w.running(worker)
	loading, cancel := context.WithCancel(t.Context())
	defer cancel()
	ids := w.trickle(loading)
	w.eventually(func() bool { return done.Load() > 100 }, "load arrives")

	for range 2 {
		require.NoError(t, server.Kill())
		w.eventually(func() bool { return worker.Receiving(t.Context()) != nil }, "the outage is noticed")
		require.Error(t, worker.Router.PingDatabases(t.Context()))
		require.NoError(t, server.Restart(t.Context()))
		resumed := done.Load()
		w.eventually(func() bool { return done.Load() > resumed+50 }, "work resumes by itself")
	}
	cancel()
	sent := ids()
	w.eventually(func() bool { return len(w.effects()) == len(sent) }, "nothing is lost")
	stop()
	require.Equal(t, once(sent), w.effects())
	require.Empty(t, w.deadLettered(), "an outage costs no message its life")
}

// deadLettered lists what waits in the dead-letter subscription and was not
// looked at for a while.
func (w *world) deadLettered() []string {
	w.t.Helper()
	var found []string
	for {
		r, err := w.client.PubSub().SubscriptionAdminClient.Pull(context.Background(), &pubsubpb.PullRequest{
			Subscription:      "projects/" + w.client.Project() + "/subscriptions/" + deadLetters,
			MaxMessages:       100,
			ReturnImmediately: true,
		})
		require.NoError(w.t, err)
		for _, m := range r.GetReceivedMessages() {
			found = append(found, m.GetMessage().GetMessageId())
		}
		// The fake puts a dead letter back every few milliseconds, so do not wait for an empty answer.
		if len(r.GetReceivedMessages()) < 100 {
			return found
		}
	}
}

// A Redis without memory and a database that is read-only answer every ping. The
// worker must wait all the same: receiving would nack each message until its
// dead-letter policy takes it.
func TestDependenciesThatAnswerButTakeNothing(t *testing.T) {
	t.Parallel()
	_, rdb := outboxtest.RedisServer(t)
	_, db := outboxtest.Postgres(t, devstack.PostgresParams{})
	w := worldOn(t, db, rdb.URL)
	readOnly := func(setting string) {
		_, err := w.pool.Exec(t.Context(), "ALTER SYSTEM "+setting)
		require.NoError(t, err)
		_, err = w.pool.Exec(t.Context(), "SELECT pg_reload_conf()")
		require.NoError(t, err)
	}
	limit := func(bytes string) { require.NoError(t, rdb.Client.ConfigSet(t.Context(), "maxmemory", bytes).Err()) }

	var done atomic.Int64
	worker := w.hasty(consumer.Config{Hooks: consumer.Hooks{AfterDone: func(uuid.UUID) { done.Add(1) }}})
	stop := w.running(worker)
	loading, cancel := context.WithCancel(t.Context())
	defer cancel()
	ids := w.trickle(loading)
	for _, outage := range []struct{ begin, end func() }{
		{func() { limit("1") }, func() { limit("0") }},
		{func() { readOnly("SET default_transaction_read_only = on") }, func() { readOnly("RESET default_transaction_read_only") }},
	} {
		resumed := done.Load()
		w.eventually(func() bool { return done.Load() > resumed+50 }, "work goes on")
		outage.begin()
		w.eventually(func() bool { return worker.Receiving(t.Context()) != nil }, "the outage is noticed")
		streams := w.fake.Calls()["StreamingPull"]
		lasts := time.NewTimer(2 * time.Second)
		<-lasts.C
		require.Equal(t, streams, w.fake.Calls()["StreamingPull"], "it receives although it can handle nothing")
		outage.end()
	}
	cancel()
	sent := ids()
	w.eventually(func() bool { return len(w.effects()) == len(sent) }, "nothing is lost")
	stop()
	require.Equal(t, once(sent), w.effects())
	require.Empty(t, w.deadLettered(), "an outage costs no message its life")
}
