package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// memRow is a row of memStore.
type memRow struct {
	Claimed
	next      time.Time
	published time.Time
	messageID string
	dead      DeadReason
	locked    bool
	lastError string
}

// memStore is the outbox in memory, with the semantics of the SQL one: leases
// by its own clock, a fence on every settle.
type memStore struct {
	mu     sync.Mutex
	rows   []*memRow
	byID   map[string]*memRow
	lost   int
	claims int
	looks  int
	// fail, when set, is asked before every call.
	fail func(call string) error
	// delay makes a sweep over n pending rows take time.
	sweepCost func(walked int) time.Duration
	afterSeqs []int64
}

func (s *memStore) add(n int, eventType string) []*memRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	var added []*memRow
	for range n {
		seq := int64(len(s.rows) + 1)
		id := fmt.Sprintf("00000000-0000-7000-8000-%012d", seq)
		row := &memRow{Claimed: Claimed{
			Key: Key{ID: id}, Seq: seq, EventType: eventType, AggregateType: "thing",
			AggregateID: "00000000-0000-4000-8000-000000000001",
			Payload:     fmt.Appendf(nil, `{"version":1,"eventId":%q,"occurredAt":"2026-01-01T00:00:00Z","data":{}}`, id),
			CreatedAt:   time.Now(),
		}, next: time.Now()}
		s.rows = append(s.rows, row)
		if s.byID == nil {
			s.byID = map[string]*memRow{}
		}
		s.byID[id] = row
		added = append(added, row)
	}
	return added
}

func (s *memStore) failure(call string) error {
	if s.fail == nil {
		return nil
	}
	return s.fail(call)
}

func (r *memRow) claimable(p ClaimParams, now time.Time) bool {
	return r.published.IsZero() && r.dead == "" && r.Seq > p.AfterSeq && !r.next.After(now) &&
		(!r.locked || !r.Until.After(now)) &&
		(len(p.Only) == 0 || slices.Contains(p.Only, r.EventType)) && !slices.Contains(p.Except, r.EventType)
}

func (s *memStore) Claim(_ context.Context, p ClaimParams) ([]Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims++
	s.afterSeqs = append(s.afterSeqs, p.AfterSeq)
	if err := s.failure("claim"); err != nil {
		return nil, err
	}
	now := time.Now()
	var out []Claimed
	var bytes int64
	walked := 0
	for _, r := range s.rows {
		if len(out) >= p.Limit || (len(out) > 0 && bytes >= p.MaxBytes) {
			break
		}
		if r.Seq > p.AfterSeq && r.published.IsZero() && r.dead == "" {
			walked++
		}
		if !r.claimable(p, now) {
			continue
		}
		if r.locked {
			r.AttemptCount++
			r.lastError = "lease expired"
		}
		r.locked, r.Until = true, now.Add(p.Lease)
		bytes += int64(len(r.Payload))
		out = append(out, r.Claimed)
	}
	if s.sweepCost != nil {
		cost := s.sweepCost(walked)
		s.mu.Unlock()
		time.Sleep(cost)
		s.mu.Lock()
	}
	return out, nil
}

func (s *memStore) Due(_ context.Context, p ClaimParams) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if err := s.failure("due"); err != nil {
		return false, err
	}
	now := time.Now()
	return slices.ContainsFunc(s.rows, func(r *memRow) bool { return r.claimable(p, now) }), nil
}

// held returns the row if it still carries the key's lease.
func (s *memStore) held(k Key) *memRow {
	if r := s.byID[k.ID]; r.locked && r.Until.Equal(k.Until) && r.published.IsZero() && r.dead == "" {
		r.locked = false
		return r
	}
	s.lost++
	return nil
}

func (s *memStore) Settle(_ context.Context, v Verdicts) (n Settled, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failure("settle"); err != nil {
		return n, err
	}
	now := time.Now()
	for _, x := range v.Delivered {
		if r := s.held(x.Key); r != nil {
			r.published, r.messageID = now, x.MessageID
			n.Delivered++
		}
	}
	for _, x := range v.Failed {
		if r := s.held(x.Key); r != nil {
			r.next, r.lastError = now.Add(x.Delay), x.Error
			if !x.Free {
				r.AttemptCount++
			}
			n.Failed++
		}
	}
	for _, x := range v.Dead {
		if r := s.held(x.Key); r != nil {
			r.dead, r.lastError = x.Reason, x.Error
			if x.Attempted {
				r.AttemptCount++
			}
			n.Dead++
		}
	}
	for _, k := range v.Released {
		if r := s.held(k); r != nil {
			n.Released++
		}
	}
	return n, nil
}

func (s *memStore) calls() (claims, looks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims, s.looks
}

// all returns copies, in seq order.
func (s *memStore) all() []memRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]memRow, len(s.rows))
	for i, r := range s.rows {
		out[i] = *r
	}
	slices.SortFunc(out, func(a, b memRow) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

func (s *memStore) count(match func(memRow) bool) (n int) {
	for _, r := range s.all() {
		if match(r) {
			n++
		}
	}
	return n
}

func isPublished(r memRow) bool { return !r.published.IsZero() }

// memBroker is a broker in memory. Verdicts come from a function so that a
// test can make it fail.
type memBroker struct {
	mu       sync.Mutex
	stored   map[string]int
	messages map[string]Message
	calls    map[string]int
	readies  map[string]int
	// verdict decides about one message; nil accepts it.
	verdict func(topic string, m Message) error
	ready   func(topic string) error
	// latency is waited for inside Publish.
	latency func(topic string) time.Duration
}

func newMemBroker() *memBroker {
	return &memBroker{stored: map[string]int{}, messages: map[string]Message{}, calls: map[string]int{}, readies: map[string]int{}}
}

func (b *memBroker) Publish(ctx context.Context, topic string, msgs []Message) []Result {
	if b.latency != nil {
		select {
		case <-time.After(b.latency(topic)):
		case <-ctx.Done():
			out := make([]Result, len(msgs))
			for i := range out {
				out[i].Err = NewFailure("DeadlineExceeded", ctx.Err())
			}
			return out
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[topic]++
	out := make([]Result, len(msgs))
	for i, m := range msgs {
		if b.verdict != nil {
			if out[i].Err = b.verdict(topic, m); out[i].Err != nil {
				continue
			}
		}
		b.stored[m.EventID]++
		b.messages[m.EventID] = m
		out[i].MessageID = "m-" + m.EventID
	}
	return out
}

func (b *memBroker) Ready(_ context.Context, topic string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readies[topic]++
	if b.ready != nil {
		return b.ready(topic)
	}
	return nil
}

func (b *memBroker) times(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stored[id]
}

func (b *memBroker) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// memCatalogue knows two topics.
type memCatalogue struct{}

func (memCatalogue) Resolve(t string) (string, string, bool) {
	switch t {
	case "red":
		return "thing", "reds", true
	case "blue":
		return "thing", "blues", true
	}
	return "", "", false
}

func (memCatalogue) Validate(_ string, data json.RawMessage) error {
	if string(data) == `"poison"` {
		return errors.New("data must be an object")
	}
	return nil
}

// memObserver remembers what it was told.
type memObserver struct {
	mu       sync.Mutex
	lost     int
	troubles []string
	topics   []TopicStatus
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

func (o *memObserver) TopicChanged(s TopicStatus) {
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
