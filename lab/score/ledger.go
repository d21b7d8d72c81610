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

	mu    sync.Mutex
	first map[string]arrival // the first message of each event
	total int                // of all messages
}

// arrival is when the broker acknowledged a message, and the message's place among all, from 1 on.
type arrival struct {
	at    time.Time
	place int
}

func newLedger() *ledger { return &ledger{first: map[string]arrival{}} }

func (l *ledger) answered(_ time.Time, a devstack.PublishAnswer) {
	l.mu.Lock()
	before := l.total
	for i := range a.Stored {
		l.store(a.Messages[i].GetAttributes()["event_id"], time.Now())
	}
	due := before/forgetEvery != l.total/forgetEvery
	l.mu.Unlock()
	if due {
		l.forget()
	}
}

// store notes an event's message.
func (l *ledger) store(id string, at time.Time) {
	l.total++
	if _, known := l.first[id]; !known {
		l.first[id] = arrival{at, l.total}
	}
}

// of is the first message of an event.
func (l *ledger) of(id string) (first arrival, stored bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, stored = l.first[id]
	return first, stored
}

// counts are how many events it has stored, and the messages beyond each one's first.
func (l *ledger) counts() (events, duplicates int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.first), l.total - len(l.first)
}
