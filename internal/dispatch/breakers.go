package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// breakers holds the breakers of all topics.
type breakers struct {
	mu      sync.Mutex
	byTopic map[string]*breaker
}

// newBreakers groups the event types in scope by the topic they go to.
func newBreakers(names outbox.Names, scope Scope) *breakers {
	b := &breakers{byTopic: map[string]*breaker{}}
	for _, topic := range names.Topics() {
		if types := scope.types(names.OnTopic(topic)); len(types) > 0 {
			b.byTopic[topic] = newBreaker(topic, types)
		}
	}
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
	}
	return br
}

// all lists the breakers by topic.
func (b *breakers) all() []*breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.byTopic), func(a, b *breaker) int { return cmp.Compare(a.topic, b.topic) })
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

// healthy reports whether every topic is published to.
func (b *breakers) healthy() bool {
	return !slices.ContainsFunc(b.all(), func(br *breaker) bool { return !br.healthy() })
}
