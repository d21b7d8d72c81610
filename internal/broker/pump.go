package broker

import (
	"context"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// Pump hands deliveries to a function, side by side up to a number and those of an ordering key one
// after the other. A delivery has its place until the function returns.
type Pump struct {
	slots chan struct{}
	under sync.WaitGroup

	mu   sync.Mutex
	last map[string]chan struct{} // by ordering key: closed when the function has returned for the last one
}

// NewPump hands out so many deliveries at once.
func NewPump(concurrency int) *Pump {
	return &Pump{slots: make(chan struct{}, max(1, concurrency)), last: make(map[string]chan struct{})}
}

// Hand waits for a place and calls f in the background. It reports whether there was one before ctx
// ended; otherwise the delivery is given back.
func (p *Pump) Hand(ctx context.Context, d Delivery, f func(Delivery)) bool {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		d.Nack()
		return false
	}
	s, returned := &settled{Message: d.Message, done: make(chan struct{})}, make(chan struct{})
	d.Message = s
	before := p.follow(d.OrderingKey, returned)
	p.under.Go(func() {
		if before != nil {
			<-before
		}
		f(d)
		close(returned)
		p.forget(d.OrderingKey, returned)
		<-p.slots
		<-s.done
	})
	return true
}

// follow puts a delivery behind the last one of its key, which is returned.
func (p *Pump) follow(key string, done chan struct{}) (before chan struct{}) {
	if key == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.last[key] = p.last[key], done
	return before
}

func (p *Pump) forget(key string, done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last[key] == done {
		delete(p.last, key)
	}
}

// Wait returns when everything is settled.
func (p *Pump) Wait() { p.under.Wait() }

// settled tells when a message was acknowledged or given back.
type settled struct {
	Message
	once sync.Once
	done chan struct{}
}

func (s *settled) Ack() { s.settle(s.Message.Ack) }

func (s *settled) Nack() { s.settle(s.Message.Nack) }

func (s *settled) settle(f func()) {
	s.once.Do(func() {
		f()
		close(s.done)
	})
}

// The pause before a message comes again that was given back, where the broker makes none.
const (
	firstPause = time.Second
	lastPause  = 10 * time.Minute
)

// Pause is how long a message waits that was delivered so often.
func Pause(attempt int) time.Duration {
	return wire.Backoff{Min: firstPause, Max: lastPause}.Pause(attempt)
}
