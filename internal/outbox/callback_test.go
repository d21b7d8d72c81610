package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outbox/publishertest"
)

func TestCallbackPublisherConformance(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, func(*testing.T) publishertest.Broker { return newMemoryBroker().broker() })
}

func TestCallbackPublisherWithoutProbeIsReady(t *testing.T) {
	t.Parallel()
	require.NoError(t, (&outbox.CallbackPublisher{}).Ready(t.Context(), "domain"))
}

func TestCallbackPublisherKeepsThePlainError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	p := &outbox.CallbackPublisher{
		Deliver: func(context.Context, string, outbox.Message) (string, error) { return "ignored", boom },
		Probe:   func(context.Context, string) error { return context.DeadlineExceeded },
	}
	results := p.Publish(t.Context(), "domain", make([]outbox.Message, 1))
	require.ErrorIs(t, results[0].Err, boom)
	require.Empty(t, results[0].MessageID)
	require.Equal(t, "DeadlineExceeded", outbox.CodeOf(p.Ready(t.Context(), "domain")))
}

// memoryBroker is the smallest broker that can misbehave as the suite asks.
type memoryBroker struct {
	mu       sync.Mutex
	stored   []outbox.Message
	code     string
	rejected map[string]bool
	arrived  chan struct{}
	gate     chan struct{}
}

func newMemoryBroker() *memoryBroker {
	return &memoryBroker{rejected: map[string]bool{}, arrived: make(chan struct{}, 1)}
}

func (m *memoryBroker) deliver(ctx context.Context, topic string, msg outbox.Message) (string, error) {
	if err := m.probe(ctx, topic); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if gate := m.gate; gate != nil {
		m.arrived <- struct{}{}
		m.mu.Unlock()
		select {
		case <-gate:
		case <-ctx.Done():
		}
		m.mu.Lock()
		if err := ctx.Err(); err != nil {
			return "", err
		}
	}
	switch {
	case m.code != "":
		return "", outbox.NewFailure(m.code, errors.New("injected"))
	case m.rejected[msg.EventID]:
		return "", outbox.NewFailure("InvalidArgument", errors.New("not acceptable"))
	}
	m.stored = append(m.stored, msg)
	return fmt.Sprint("m", len(m.stored)), nil
}

func (m *memoryBroker) probe(_ context.Context, topic string) error {
	if topic != "domain" {
		return outbox.NewFailure("NotFound", errors.New("no such topic"))
	}
	return nil
}

func (m *memoryBroker) broker() publishertest.Broker {
	return publishertest.Broker{
		Publisher:    &outbox.CallbackPublisher{Deliver: m.deliver, Probe: m.probe},
		Topic:        "domain",
		MissingTopic: "nowhere",
		Stored: func() []outbox.Message {
			m.mu.Lock()
			defer m.mu.Unlock()
			return append([]outbox.Message(nil), m.stored...)
		},
		Fail: func(code string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.code = code
		},
		Reject: func(id string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.rejected[id] = true
		},
		Hold: func() (<-chan struct{}, func()) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.gate = make(chan struct{})
			return m.arrived, sync.OnceFunc(func() { close(m.gate) })
		},
	}
}
