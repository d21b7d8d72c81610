package bench

import (
	"context"
	"sync"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/consumer"
)

// feed hands out messages from memory. Google's fake gives each stream one message per 10 ms and looks at all that it has
// for it: with it a bench measures the fake.
type feed struct{ messages []broker.Delivery }

// Receive implements broker.Source.
func (f *feed) Receive(ctx context.Context, deliver func(broker.Delivery)) error {
	waiting := make(chan broker.Delivery)
	var handlers sync.WaitGroup
	for range consumer.DefaultConcurrency {
		handlers.Go(func() {
			for d := range waiting {
				deliver(d)
			}
		})
	}
	for _, d := range f.messages {
		waiting <- d
	}
	close(waiting)
	handlers.Wait()
	f.messages = nil
	<-ctx.Done()
	return nil
}

// Permanent implements broker.Source.
func (*feed) Permanent(error) bool { return false }

// About implements broker.Source.
func (*feed) About() broker.About { return broker.About{} }

// acknowledged is a message whose handling the bench counts by its effects.
type acknowledged struct{}

func (acknowledged) Ack()  {}
func (acknowledged) Nack() {}
