package dispatch

import (
	"maps"
	"slices"
	"sync"
)

// breakers holds the breakers of all topics.
type breakers struct {
	mu      sync.Mutex
	byTopic map[string]*breaker
	topics  []string
}

// newBreakers groups the event types in scope by the topic they go to.
func newBreakers(catalogue Catalogue, types []string) *breakers {
	byTopic := map[string][]string{}
	for _, t := range types {
		if topic, ok := catalogue.TopicOf(t); ok {
			byTopic[topic] = append(byTopic[topic], t)
		}
	}
	b := &breakers{byTopic: make(map[string]*breaker, len(byTopic)), topics: slices.Sorted(maps.Keys(byTopic))}
	for topic, types := range byTopic {
		b.byTopic[topic] = newBreaker(topic, types)
	}
	return b
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

// typesOf lists the event types in scope that go to a topic.
func (b *breakers) typesOf(topic string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if br := b.byTopic[topic]; br != nil {
		return br.types
	}
	return nil
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
func (b *breakers) except(isCrowded func(topic string) bool) (types, crowded []string) {
	for _, br := range b.all() {
		switch {
		case !br.healthy():
			types = append(types, br.types...)
		case isCrowded(br.topic):
			types = append(types, br.types...)
			crowded = append(crowded, br.topic)
		}
	}
	return types, crowded
}

// status lists every topic in alphabetical order.
func (b *breakers) status() []TopicStatus {
	all := b.all()
	out := make([]TopicStatus, len(all))
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
