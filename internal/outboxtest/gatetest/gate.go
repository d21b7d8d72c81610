// Package gatetest decides what a broker of a test does with what the conformance suite of
// publishers sends it.
package gatetest

import (
	"sync"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
)

// Gate stands between a publisher and a broker. F is what the broker answers with; its zero value
// lets a request pass.
type Gate[F any] struct {
	answers map[dispatch.Class]F

	mu       sync.Mutex
	fail     F
	rejected map[string]bool
	held     func()
}

// New is a gate that answers so by class. A message that the suite has rejected gets the answer
// of Refused.
func New[F any](answers map[dispatch.Class]F) *Gate[F] {
	return &Gate[F]{answers: answers, rejected: map[string]bool{}}
}

// Judge says what becomes of a request with these events: first it waits for held, unless that is
// nil.
func (g *Gate[F]) Judge(ids ...string) (fail F, held func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fail = g.fail
	for _, id := range ids {
		if g.rejected[id] {
			fail = g.answers[dispatch.Refused]
		}
	}
	return fail, g.held
}

func (g *Gate[F]) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// Broker is b with the faults that the gate makes.
func (g *Gate[F]) Broker(b dispatchtest.Broker) dispatchtest.Broker {
	b.Fail = func(class dispatch.Class) { g.set(func() { g.fail = g.answers[class] }) }
	b.Recover = func() { g.set(func() { g.fail = *new(F) }) }
	b.Reject = func(id string) { g.set(func() { g.rejected[id] = true }) }
	b.Hold = func() (<-chan struct{}, func()) {
		arrived, gate := make(chan struct{}, 1), make(chan struct{})
		g.set(func() {
			g.held = func() {
				select {
				case arrived <- struct{}{}:
				default:
				}
				<-gate
			}
		})
		return arrived, sync.OnceFunc(func() { close(gate) })
	}
	return b
}
