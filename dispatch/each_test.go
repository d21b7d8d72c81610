package dispatch_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
)

// memory is a function's store that can be told to misbehave.
type memory struct {
	mu       sync.Mutex
	stored   []dispatch.Message
	rejected map[string]bool
	failing  error
	held     func()
}

func (b *memory) take(_ context.Context, _ string, m dispatch.Message) error {
	b.mu.Lock()
	held := b.held
	b.mu.Unlock()
	if held != nil {
		held()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failing != nil:
		return b.failing
	case b.rejected[m.EventID]:
		return dispatch.Reject(errors.New("refused"))
	}
	m.Data, m.Attributes = slices.Clone(m.Data), maps.Clone(m.Attributes)
	b.stored = append(b.stored, m)
	return nil
}

func (b *memory) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func TestEachConformance(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, func(*testing.T) dispatchtest.Broker {
		b := &memory{rejected: map[string]bool{}}
		return dispatchtest.Broker{
			Publisher: dispatch.Each(b.take, 8),
			Topic:     "orders",
			Stored: func() []dispatch.Message {
				b.mu.Lock()
				defer b.mu.Unlock()
				return slices.Clone(b.stored)
			},
			Fail: func(class dispatch.Class) {
				away := errors.New("away")
				b.set(func() {
					b.failing = map[dispatch.Class]error{
						dispatch.Retryable: away, dispatch.Refused: dispatch.Reject(away), dispatch.Misconfigured: dispatch.Pause(away),
					}[class]
				})
			},
			Recover: func() { b.set(func() { b.failing = nil }) },
			Reject:  func(id string) { b.set(func() { b.rejected[id] = true }) },
			Hold: func() (<-chan struct{}, func()) {
				arrived, gate := make(chan struct{}, 1), make(chan struct{})
				b.set(func() {
					b.held = func() {
						select {
						case arrived <- struct{}{}:
						default:
						}
						<-gate
					}
				})
				return arrived, sync.OnceFunc(func() { close(gate) })
			},
		}
	})
}
