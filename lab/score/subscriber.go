package score

import (
	"context"
	"fmt"
	"sync"
	"time"

	gcppubsub "cloud.google.com/go/pubsub/v2"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/pubsub"
)

// orderedSubscription is what topic ensure makes for the events of newEvent.
const orderedSubscription = "pf-domain-events-sub"

// subscriberStreams is what it takes to receive faster than the fake's one message per stream and 10 ms.
const subscriberStreams = 16

// subscriber is a worker of Google's client with message ordering, and what it has received.
type subscriber struct {
	mu         sync.Mutex
	places     map[string]int // how many messages it had when each event came first
	total      int
	duplicates int
}

// subscribe receives until the world ends.
func (w *world) subscribe(ctx context.Context) (*subscriber, error) {
	client, err := pubsub.Connect(ctx, pubsub.Config{Project: w.broker.Project, Emulator: w.broker.Addr()})
	if err != nil {
		return nil, err
	}
	s := &subscriber{places: map[string]int{}}
	receiving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	receiver := client.PubSub().Subscriber(orderedSubscription)
	receiver.ReceiveSettings.NumGoroutines = subscriberStreams
	go func() { ended <- receiver.Receive(receiving, s.receive) }()
	w.onClose(func() error {
		stop()
		err := <-ended
		_ = client.Close() // nothing is left to send
		return err
	})
	return s, nil
}

// receive is called for one message of a key at a time.
func (s *subscriber) receive(_ context.Context, m *gcppubsub.Message) {
	id := m.Attributes[consume.AttrEventID]
	s.mu.Lock()
	s.total++
	if _, known := s.places[id]; known {
		s.duplicates++
	} else {
		s.places[id] = s.total
	}
	s.mu.Unlock()
	m.Ack()
}

// place is where an event came first among all messages, from 1 on.
func (s *subscriber) place(id string) (at int, received bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, received = s.places[id]
	return at, received
}

// await waits for so many events, and returns what has come by then.
func (s *subscriber) await(ctx context.Context, events int) (*subscriber, error) {
	err := eventually(ctx, 5*time.Minute, func() (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.places) >= events, nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the subscriber: %w", err)
	}
	return s, nil
}
