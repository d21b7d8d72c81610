package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// memBroker is a broker in memory. Verdicts come from a function so that a
// test can make it fail.
type memBroker struct {
	mu       sync.Mutex
	stored   map[string]int
	messages map[string]Message
	calls    map[string]int
	readies  map[string]int
	// sendings are the requests of ordering keys, by their events.
	sendings [][]string
	// arrived are the events of ordering keys in the order they were stored in.
	arrived []string
	// verdict decides about one message; nil accepts it.
	verdict func(topic string, m Message) error
	ready   func(topic string) error
	// latency is waited for inside Publish. Not when it is 0: timers of a synctest
	// bubble that are over at once and run at once crash the race detector.
	latency func(topic string) time.Duration
}

func newMemBroker() *memBroker {
	return &memBroker{stored: map[string]int{}, messages: map[string]Message{}, calls: map[string]int{}, readies: map[string]int{}}
}

func (b *memBroker) Publish(ctx context.Context, topic string, msgs []Message) []Result {
	if wait := b.takes(topic); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			out := make([]Result, len(msgs))
			for i := range out {
				out[i].Err = NewFailure(Retryable, "DeadlineExceeded", ctx.Err())
			}
			return out
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[topic]++
	if len(msgs) > 0 && msgs[0].OrderingKey != "" {
		return b.publishInOrder(topic, msgs)
	}
	out := make([]Result, len(msgs))
	for i, m := range msgs {
		if b.verdict != nil {
			if out[i].Err = b.verdict(topic, m); out[i].Err != nil {
				continue
			}
		}
		b.stored[m.EventID]++
		b.messages[m.EventID] = m
		out[i].MessageID = "m-" + m.EventID
	}
	return proven(out)
}

// publishInOrder stores whole requests of one key, or nothing of them.
func (b *memBroker) publishInOrder(topic string, msgs []Message) []Result {
	whole := func(msgs []Message) int { return len(msgs) }
	return inOrder(context.Background(), msgs, whole, func(_ context.Context, part []Message) []Result {
		b.sendings = append(b.sendings, column(part, func(m Message) string { return m.EventID }))
		out := make([]Result, len(part))
		for _, m := range part {
			if m.OrderingKey != part[0].OrderingKey {
				panic("two ordering keys in one request")
			}
			if b.verdict == nil {
				continue
			}
			if err := b.verdict(topic, m); err != nil {
				for j := range out {
					out[j].Err = err
				}
				return out
			}
		}
		for i, m := range part {
			b.stored[m.EventID]++
			b.messages[m.EventID] = m
			b.arrived = append(b.arrived, m.EventID)
			out[i].MessageID = "m-" + m.EventID
		}
		return out
	})
}

func (b *memBroker) takes(topic string) time.Duration {
	if b.latency == nil {
		return 0
	}
	return b.latency(topic)
}

func (b *memBroker) Limits(string) wire.Limits { return wire.PubSubLimits() }

func (b *memBroker) Ready(_ context.Context, topic string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readies[topic]++
	if b.ready != nil {
		return b.ready(topic)
	}
	return nil
}

func (b *memBroker) times(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stored[id]
}

func (b *memBroker) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}
