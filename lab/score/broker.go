package score

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// headerReject marks the messages the broker does not take.
const headerReject = "score-reject"

// forgetEvery is after how many messages the fake is told to forget what it holds.
const forgetEvery = 20_000

// broker is the Pub/Sub fake and the record of what reached it.
type broker struct {
	*devstack.PubSub

	mu       sync.Mutex
	stored   map[string][]time.Time // when the broker acknowledged each event, as often as it did
	places   map[string]int         // how many messages it had when it stored each event first
	reached  map[string]bool        // events that were in any request, stored or not
	arrivals chan struct{}          // gets a value when a request comes, as long as there is room
	delay    time.Duration
	lenient  bool // takes what is marked for rejection
	total    int
	keep     bool // messages, for consumers
}

func newBroker(fake *devstack.PubSub) *broker {
	b := &broker{PubSub: fake, stored: map[string][]time.Time{}, places: map[string]int{}, reached: map[string]bool{}, arrivals: make(chan struct{}, 1)}
	fake.OnPublish(b.publish)
	fake.OnAnswer(b.answer)
	fake.RejectMessages(b.rejects)
	return b
}

// set changes how long the broker takes for each request.
func (b *broker) set(delay time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delay = delay
}

// heal makes the broker take everything.
func (b *broker) heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lenient = true
}

func (b *broker) publish(_ context.Context, call devstack.PublishCall) devstack.PublishFault {
	select {
	case b.arrivals <- struct{}{}:
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range call.Messages {
		b.reached[m.GetAttributes()["event_id"]] = true
	}
	return devstack.PublishFault{Delay: b.delay}
}

func (b *broker) rejects(_ string, m *pubsubpb.PubsubMessage) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return m.GetAttributes()[headerReject] != "" && !b.lenient
}

func (b *broker) answer(a devstack.PublishAnswer) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range a.Stored {
		id := a.Messages[i].GetAttributes()["event_id"]
		if len(b.stored[id]) == 0 {
			b.places[id] = b.total + i + 1
		}
		b.stored[id] = append(b.stored[id], now)
	}
	before := b.total
	b.total += len(a.Stored)
	if !b.keep && before/forgetEvery != b.total/forgetEvery {
		b.Forget()
	}
}

// firstAt is when the broker first acknowledged an event.
func (b *broker) firstAt(id string) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	times := b.stored[id]
	if len(times) == 0 {
		return time.Time{}, false
	}
	return times[0], true
}

// place is where an event's first message is among all, from 1 on.
func (b *broker) place(id string) (at int, stored bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, stored = b.places[id]
	return at, stored
}

// events counts those that it has stored.
func (b *broker) events() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.stored)
}

// duplicates counts messages beyond each event's first.
func (b *broker) duplicates() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, times := range b.stored {
		n += len(times) - 1
	}
	return n
}

// await waits for the next request.
func (b *broker) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case <-b.arrivals:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a publisher's request: %w", ctx.Err())
	}
}
