package dispatch

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// memCatalogue knows two topics.
type memCatalogue struct{}

func (memCatalogue) Describe(_, t string) (wire.EventType, bool) {
	return wire.EventType{Aggregate: "thing", Topic: t + "s"}, t == "red" || t == "blue"
}

// memNames are those of types that each have a topic.
func memNames(types ...string) (names outbox.Names) {
	for _, t := range types {
		names = append(names, outbox.Name{Namespace: outbox.AllNamespaces, Name: t, Type: t, Topic: t + "s"})
	}
	return names
}

func (memCatalogue) Check(_, t string, data json.RawMessage) (int, error) {
	if string(data) == `"poison"` {
		return 0, &wire.PayloadError{EventType: t, Problems: wire.Problems{{Field: "data", Problem: "must be an object"}}}
	}
	return 0, nil
}

// memObserver remembers what it was told.
type memObserver struct {
	mu       sync.Mutex
	lost     int
	troubles []string
	topics   []TopicReport
	attempts []Attempt
	claims   []ClaimReport
}

func (o *memObserver) Claimed(r ClaimReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims = append(o.claims, r)
}

func (o *memObserver) Published(_ string, _ time.Duration, attempts []Attempt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts = append(o.attempts, attempts...)
}

func (o *memObserver) Settled(r SettleReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost += r.Lost
}

func (o *memObserver) TopicChanged(s TopicReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.topics = append(o.topics, s)
}

func (o *memObserver) Trouble(doing string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.troubles = append(o.troubles, doing+": "+err.Error())
}

func (o *memObserver) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims = nil
}

// told is how often a topic changed.
func (o *memObserver) told() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.topics)
}

func (o *memObserver) states(topic string) (out []TopicState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.topics {
		if s.Topic == topic && (len(out) == 0 || out[len(out)-1] != s.State) {
			out = append(out, s.State)
		}
	}
	return out
}
