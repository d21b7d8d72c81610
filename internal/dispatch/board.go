package dispatch

import (
	"maps"
	"slices"
	"sync"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// board holds the breakers of all topics.
type board struct {
	mu       sync.Mutex
	breakers map[string]*breaker
	topics   []string
}

// newBoard groups the event types in scope by the topic they go to.
func newBoard(catalogue outbox.Catalogue, types []string) *board {
	byTopic := map[string][]string{}
	for _, t := range types {
		if _, topic, ok := catalogue.Resolve(t); ok {
			byTopic[topic] = append(byTopic[topic], t)
		}
	}
	b := &board{breakers: make(map[string]*breaker, len(byTopic)), topics: slices.Sorted(maps.Keys(byTopic))}
	for topic, types := range byTopic {
		b.breakers[topic] = newBreaker(topic, types)
	}
	return b
}

// at returns a topic's breaker.
func (b *board) at(topic string) *breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	br := b.breakers[topic]
	if br == nil {
		// A topic of none of the types in scope: its rows cannot be told
		// apart in a claim, but its failures still must be.
		br = newBreaker(topic, nil)
		b.breakers[topic] = br
		b.topics = slices.Sorted(maps.Keys(b.breakers))
	}
	return br
}

func (b *board) all() []*breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*breaker, len(b.topics))
	for i, topic := range b.topics {
		out[i] = b.breakers[topic]
	}
	return out
}

// except lists the event types not to claim now.
func (b *board) except(crowded func(topic string) bool) []string {
	var types []string
	for _, br := range b.all() {
		if !br.closed() || crowded(br.topic) {
			types = append(types, br.types...)
		}
	}
	return types
}

// status lists every topic in alphabetical order.
func (b *board) status() []TopicStatus {
	all := b.all()
	out := make([]TopicStatus, len(all))
	for i, br := range all {
		out[i] = br.snapshot()
	}
	return out
}

// closed says whether every topic is published to.
func (b *board) closed() bool {
	for _, br := range b.all() {
		if !br.closed() {
			return false
		}
	}
	return true
}
