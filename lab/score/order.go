package score

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// orderedKeys is how many ordering keys the events of a scenario share.
const orderedKeys = 200

// orderedSubscription is what topic ensure makes for the events of newEvent.
const orderedSubscription = "pf-domain-events-sub"

// subscriberStreams is what it takes to receive faster than the fake's one message per stream and
// 10 ms.
const subscriberStreams = 16

// emitOrdered commits n events with ordering keys. One producer emits them all, so their order is
// that of seq.
func (w *world) emitOrdered(ctx context.Context, n int) {
	batch := make([]emit.Event, n)
	for i := range batch {
		batch[i] = newEvent(false)
		batch[i].OrderingKey = fmt.Sprint("key/", rand.IntN(orderedKeys))
	}
	emitAll(ctx, w.pool, batch...)
}

// emitWhile emits some events ten times a second for that long.
func emitWhile(ctx context.Context, lasts time.Duration, some func(context.Context)) {
	for ends := time.Now().Add(lasts); time.Now().Before(ends) &&
		rig.Pause(ctx, 100*time.Millisecond); {
		some(ctx)
	}
}

// shortLease are the arguments of publishers whose lease ends within a scenario's patience.
func shortLease(lease time.Duration) []string {
	return []string{
		"--lease", lease.String(), "--publish-timeout", "1s", "--backoff-base", "100ms", "--poll-interval", "100ms", "--max-attempts", "100",
	}
}

// orderThroughKills is R24. Every fifth publisher is not killed at once: it stands still for two
// leases, with the keys that it was sending, and goes on for a moment.
func (s *Session) orderThroughKills(ctx context.Context) result {
	const lease = 2 * time.Second
	lasts := s.lasts(20*time.Second, time.Minute)
	return s.in(ctx, surroundings{ordered: true}, func(w *world) result {
		w.ledger.keep = true
		w.Broker.Slow(20 * time.Millisecond) // long enough for each publisher to have something in flight
		sub := w.subscribe(ctx)
		all := w.publishers(ctx, 3, shortLease(lease)...)
		work, workCtx := errgroup.WithContext(ctx)
		work.Go(func() error {
			return rig.Carry(func() {
				emitWhile(workCtx, lasts,
					func(ctx context.Context) { w.emitOrdered(ctx, 50) })
			})
		})
		var killed, stopped int
		work.Go(func() error {
			return rig.Carry(func() { killed, stopped = w.killOneASecond(workCtx, all, lasts, lease) })
		})
		rig.Check(work.Wait())
		w.settled(ctx, 2*time.Minute)
		t := w.tally(ctx)
		wrong := w.disordered(ctx, w.ledger.place)
		rig.Await(ctx, 5*time.Minute, "the subscriber", func() bool { return sub.events() >= t.events })
		received := w.disordered(ctx, sub.place)
		return judge(t.lost == 0 && t.unknown == 0 && wrong == 0 && received == 0, true,
			"%d publishers killed, %d of them after %s of standing still: %d events of %d keys, %d first copies out of order at the broker, %d at a subscriber with message ordering; %d lost, %d duplicates stored, %d received",
			killed, stopped, 2*lease, t.events, orderedKeys, wrong, received, t.lost, t.duplicates, sub.duplicates())
	})
}

// subscribe is a worker of Google's client with message ordering, and the ledger of what it
// receives until the world ends.
func (w *world) subscribe(ctx context.Context) *ledger {
	client := rig.Must(pubsub.Connect(ctx,
		pubsub.Config{Project: w.Broker.Project, Emulator: w.Broker.Addr()}))
	l := newLedger()
	receiving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	receiver := client.PubSub().Subscriber(orderedSubscription)
	receiver.ReceiveSettings.NumGoroutines = subscriberStreams
	go func() {
		ended <- receiver.Receive(receiving, func(_ context.Context, m *gcppubsub.Message) {
			l.store(m.Attributes[consume.AttrEventID])
			m.Ack()
		})
	}()
	w.OnClose(func() error {
		stop()
		err := <-ended
		_ = client.Close() // nothing is left to send
		return err
	})
	return l
}

// killOneASecond kills a publisher each second and starts another in its place.
func (w *world) killOneASecond(ctx context.Context, all []*rig.Process, lasts,
	lease time.Duration) (killed, stopped int) {
	for ends := time.Now().Add(lasts); time.Now().Before(ends) && rig.Pause(ctx, time.Second); {
		p := all[0]
		if killed%5 == 4 {
			p.Signal(syscall.SIGSTOP)
			rig.Pause(ctx, 2*lease)
			p.Signal(syscall.SIGCONT)
			rig.Pause(ctx, 200*time.Millisecond)
			stopped++
		}
		p.End(ctx, syscall.SIGKILL)
		killed++
		all = append(all[1:], w.publish(fmt.Sprintf("publisher-%d", 3+killed), shortLease(lease)...))
	}
	return killed, stopped
}

// disordered counts events that were at their place before an earlier one of their ordering key, or
// nowhere.
func (w *world) disordered(ctx context.Context,
	place func(id string) (at int, there bool)) (n int) {
	rows := rig.Must(w.pool.Query(ctx,
		`SELECT ordering_key, id::text FROM outbox_events WHERE ordering_key IS NOT NULL AND passed_at IS NULL ORDER BY seq`))
	defer rows.Close()
	last := map[string]int{}
	for rows.Next() {
		var key, id string
		rig.Check(rows.Scan(&key, &id))
		at, there := place(id)
		if !there || at < last[key] {
			n++
			continue
		}
		last[key] = at
	}
	rig.Check(rows.Err())
	return n
}
