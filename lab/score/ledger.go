package score

import (
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// forgetEvery is after how many messages the fake is told to forget what it holds.
const forgetEvery = 20_000

// ledger is the record of what reached the broker.
type ledger struct {
	forget func()

	mu     sync.Mutex
	stored map[string][]time.Time // when the broker acknowledged each event, as often as it did
	places map[string]int         // how many messages it had when it stored each event first
	total  int
}

func newLedger() *ledger {
	return &ledger{stored: map[string][]time.Time{}, places: map[string]int{}}
}

func (l *ledger) answered(_ time.Time, a devstack.PublishAnswer) {
	before := l.events()
	for i := range a.Stored {
		l.store(a.Messages[i].GetAttributes()["event_id"])
	}
	if before/forgetEvery != l.events()/forgetEvery {
		l.forget()
	}
}

// store notes an event's message.
func (l *ledger) store(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if len(l.stored[id]) == 0 {
		l.places[id] = l.total
	}
	l.stored[id] = append(l.stored[id], time.Now())
}

// firstAt is when the broker first acknowledged an event.
func (l *ledger) firstAt(id string) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	times := l.stored[id]
	if len(times) == 0 {
		return time.Time{}, false
	}
	return times[0], true
}

// place is where an event's first message is among all, from 1 on.
func (l *ledger) place(id string) (at int, stored bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, stored = l.places[id]
	return at, stored
}

// events counts those that it has stored.
func (l *ledger) events() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.stored)
}

// duplicates counts messages beyond each event's first.
func (l *ledger) duplicates() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.stored {
		n += len(times) - 1
	}
	return n
}
