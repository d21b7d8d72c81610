// Package ratelimit limits how often each of many names may do something.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// namesKept bounds the memory: when more names were seen than this, all of them begin again.
const namesKept = 10_000

// PerName is a limiter for each name: an identity, or an address.
type PerName struct {
	perMinute int

	mu    sync.Mutex
	names map[string]*rate.Limiter
}

// New returns limits of so many per minute, all of which may come at once.
func New(perMinute int) *PerName {
	return &PerName{perMinute: perMinute, names: map[string]*rate.Limiter{}}
}

// Of returns the limiter of a name.
func (p *PerName) Of(name string) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.names[name]
	if found == nil {
		if len(p.names) >= namesKept {
			clear(p.names)
		}
		found = rate.NewLimiter(rate.Every(time.Minute/time.Duration(p.perMinute)), p.perMinute)
		p.names[name] = found
	}
	return found
}
