package dispatch

import (
	"maps"
	"slices"
	"sync"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// breakers holds the breakers of all topics.
type breakers struct {
	mu      sync.Mutex
	byTopic map[string]*breaker
	topics  []string
}

// newBreakers groups the event types in scope by the topic they go to.
func newBreakers(names outbox.Names, scope Scope) *breakers {
	b := &breakers{byTopic: map[string]*breaker{}}
	for _, topic := range names.Topics() {
		if types := scope.types(names.OnTopic(topic)); len(types) > 0 {
			b.byTopic[topic] = newBreaker(topic, types)
		}
	}
	b.topics = slices.Sorted(maps.Keys(b.byTopic))
	return b
}

// types are those of a set that are in scope.
func (s Scope) types(set outbox.Types) outbox.Types {
	if len(s.Types) > 0 {
		set = set.And(s.Types)
	}
	if s.Namespace != "" {
		set = set.In(s.Namespace)
	}
	return set
}

// at returns a topic's breaker.
func (b *breakers) at(topic string) *breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	br := b.byTopic[topic]
	if br == nil {
		// A topic of none of the types in scope: its rows cannot be told
		// apart in a claim, but its failures still must be.
		br = newBreaker(topic, nil)
		b.byTopic[topic] = br
		b.topics = slices.Sorted(maps.Keys(b.byTopic))
	}
	return br
}

func (b *breakers) all() []*breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*breaker, len(b.topics))
	for i, topic := range b.topics {
		out[i] = b.byTopic[topic]
	}
	return out
}

// except lists the event types not to claim now, and the topics among them that
// are only crowded.
func (b *breakers) except(isCrowded func(topic string) bool) (types outbox.Types, crowded []string) {
	for _, br := range b.all() {
		switch {
		case !br.healthy():
			types = types.Or(br.types)
		case isCrowded(br.topic):
			types = types.Or(br.types)
			crowded = append(crowded, br.topic)
		}
	}
	return types, crowded
}

// status lists every topic in alphabetical order.
func (b *breakers) status() []TopicReport {
	all := b.all()
	out := make([]TopicReport, len(all))
	for i, br := range all {
		out[i] = br.snapshot()
	}
	return out
}

// healthy reports whether every topic is published to.
func (b *breakers) healthy() bool {
	for _, br := range b.all() {
		if !br.healthy() {
			return false
		}
	}
	return true
}
