package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// The states of a topic.
const (
	up      = "up"
	away    = "away"
	missing = "missing"
	deaf    = "deaf" // ready, and stores nothing
)

// message is one that the broker has stored.
type message struct{ topic, event, key string }

// broker stores messages, unless it was told not to.
type broker struct {
	mu     sync.Mutex
	topics map[string]string // what is not up
	// refuses: it rejects every message that is poison.
	refuses bool
	stored  []message
	// What happened since listen was called: how often it was asked whether a topic is ready that takes nothing, and how
	// often each event was offered to such a topic.
	asked, offered map[string]int
	// enough is closed when it was asked twice for each topic that it was asked for.
	enough chan struct{}
}

func newBroker() *broker { return &broker{topics: map[string]string{}, refuses: true} }

// listen begins to count.
func (b *broker) listen() (enough <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked, b.offered, b.enough = map[string]int{}, map[string]int{}, make(chan struct{})
	return b.enough
}

// ask counts a question about a topic that takes nothing.
func (b *broker) ask(topic string) {
	b.asked[topic]++
	for _, n := range b.asked {
		if n < 2 {
			return
		}
	}
	if b.asked[topic] == 2 && b.enough != nil {
		close(b.enough)
		b.enough = nil
	}
}

// Publish implements dispatch.Publisher.
func (b *broker) Publish(_ context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]dispatch.Result, len(msgs))
	failed := false
	for i, m := range msgs {
		switch err := b.trouble(topic); {
		case failed && m.OrderingKey != "":
			results[i].Err = dispatch.ErrUnsent
		case err != nil:
			results[i].Err, failed = err, true
			b.offered[m.EventID]++
		case b.refuses && poisonous(m.Data):
			results[i].Err, failed = dispatch.NewFailure(dispatch.Rejected, "InvalidArgument", errors.New("poison")), true
		default:
			b.stored = append(b.stored, message{topic, m.EventID, m.OrderingKey})
			results[i].MessageID = fmt.Sprint(len(b.stored))
		}
	}
	return results
}

func poisonous(data []byte) bool {
	var payload struct{ Poison bool }
	return json.Unmarshal(data, &payload) == nil && payload.Poison
}

// trouble is why a topic takes nothing.
func (b *broker) trouble(topic string) error {
	switch b.topics[topic] {
	case away, deaf:
		return dispatch.NewFailure(dispatch.Retryable, "Unavailable", errors.New("the broker is away"))
	case missing:
		return dispatch.NewFailure(dispatch.Misconfigured, "NotFound", errors.New("no such topic"))
	}
	return nil
}

// Ready implements dispatch.Publisher.
func (b *broker) Ready(_ context.Context, topic string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.trouble(topic)
	if err != nil {
		b.ask(topic)
	}
	if b.topics[topic] == deaf {
		return nil
	}
	return err
}

// Limits implements dispatch.Publisher.
func (b *broker) Limits(string) wire.Limits { return wire.PubSubLimits() }
