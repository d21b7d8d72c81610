package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dispatch/publishertest"
)

func TestCallbackPublisherConformance(t *testing.T) {
	t.Parallel()
	publishertest.Run(t, func(*testing.T) publishertest.Broker { return newMemoryBroker().broker() })
}

func TestCallbackPublisherWithoutProbeIsReady(t *testing.T) {
	t.Parallel()
	require.NoError(t, (&dispatch.CallbackPublisher{}).Ready(t.Context(), "domain"))
}

func TestCallbackPublisherKeepsThePlainError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	p := &dispatch.CallbackPublisher{
		Deliver: func(context.Context, string, dispatch.Message) (string, error) { return "ignored", boom },
		Probe:   func(context.Context, string) error { return context.DeadlineExceeded },
	}
	results := p.Publish(t.Context(), "domain", make([]dispatch.Message, 1))
	require.ErrorIs(t, results[0].Err, boom)
	require.Empty(t, results[0].MessageID)
	require.Equal(t, "DeadlineExceeded", dispatch.CodeOf(p.Ready(t.Context(), "domain")))
}

// memoryBroker is the smallest broker that can misbehave as the suite asks.
type memoryBroker struct {
	mu       sync.Mutex
	stored   []dispatch.Message
	code     string
	rejected map[string]bool
	arrived  chan struct{}
	gate     chan struct{}
}

func newMemoryBroker() *memoryBroker {
	return &memoryBroker{rejected: map[string]bool{}, arrived: make(chan struct{}, 1)}
}

func (m *memoryBroker) deliver(ctx context.Context, topic string, msg dispatch.Message) (string, error) {
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
		return "", dispatch.NewFailure(m.code, errors.New("injected"))
	case m.rejected[msg.EventID]:
		return "", dispatch.NewFailure("InvalidArgument", errors.New("not acceptable"))
	}
	m.stored = append(m.stored, msg)
	return fmt.Sprint("m", len(m.stored)), nil
}

func (m *memoryBroker) probe(_ context.Context, topic string) error {
	if topic != "domain" {
		return dispatch.NewFailure("NotFound", errors.New("no such topic"))
	}
	return nil
}

func (m *memoryBroker) broker() publishertest.Broker {
	return publishertest.Broker{
		Publisher:    &dispatch.CallbackPublisher{Deliver: m.deliver, Probe: m.probe},
		Topic:        "domain",
		MissingTopic: "nowhere",
		Stored: func() []dispatch.Message {
			m.mu.Lock()
			defer m.mu.Unlock()
			return append([]dispatch.Message(nil), m.stored...)
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
