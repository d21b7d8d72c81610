package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// TopicState is whether a topic is published to: Health in the public package.
type TopicState string

// The states of a topic. Only rows of a healthy one are claimed.
const (
	TopicHealthy    TopicState = "healthy"
	TopicRecovering TopicState = "recovering" // one row is on trial
	// TopicUnreachable: the broker cannot be reached or stores nothing.
	TopicUnreachable TopicState = "unreachable"
	// TopicMisconfigured: the broker answers and refuses the topic.
	TopicMisconfigured TopicState = "misconfigured"
)

// TopicReport is a topic's state, since when, and why.
type TopicReport struct {
	Topic string     `json:"topic"`
	State TopicState `json:"state"`
	// Since is when the topic became healthy or stopped being so: a trial that
	// fails does not make an outage look new.
	Since time.Time `json:"since"`
	// Code and Error are the last failure's; empty while the topic is healthy.
	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
	// Answered: it was answered with that failure, and so were others.
	Answered bool `json:"-"`
}

// breaker keeps one topic's state. A failure of everything that was asked of
// the topic trips it; from then on only recoverTopic changes the state, so that
// there is one writer per outage.
type breaker struct {
	topic string
	types outbox.Types
	// asking is held by the one group that asks the broker for all of them.
	asking chan struct{}
	// keyed sends the groups of ordering keys that begin on this topic.
	keyed sendQueue
	// trialAfter is the seq behind which the next trial looks first. It starts
	// at the largest seq that was sent in vain and moves on with every trial, so
	// that an outage in which the probe succeeds and publishing does not burns
	// one attempt of many rows and not every attempt of one.
	trialAfter atomic.Int64

	mu     sync.Mutex
	status TopicReport
	// generation changes with every trip: the result of a request that was sent
	// before cannot change what came after.
	generation int
	// lastOK is when the last thing that the broker accepted on this topic was
	// sent, be it a message or the question whether it is ready; lastAccepted
	// when the last message was.
	lastOK, lastAccepted time.Time
	// refused are the messages that the broker has refused, and when first.
	refused map[string]time.Time
	// failed are the messages that the destination has failed, since it accepted one.
	failed map[string]bool
}

func newBreaker(topic string, types outbox.Types) *breaker {
	return &breaker{
		topic: topic, types: types, asking: make(chan struct{}, 1), refused: map[string]time.Time{}, failed: map[string]bool{},
		status: TopicReport{Topic: topic, State: TopicHealthy, Since: time.Now()},
	}
}

func (b *breaker) snapshot() TopicReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

func (b *breaker) healthy() bool { return b.snapshot().State == TopicHealthy }

// begin returns the generation a request belongs to.
func (b *breaker) begin() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.generation
}

// quiet reports whether the broker has accepted nothing for a while.
func (b *breaker) quiet(now time.Time, while time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Sub(b.lastOK) > while
}

// ok records that the broker accepted something, or said it would, that was
// sent then.
func (b *breaker) ok(sent time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.After(b.lastOK) {
		b.lastOK = sent
	}
}

// trip records that everything asked of the topic failed with err. It reports
// whether the topic was healthy until then, in which case the caller starts its
// recovery.
func (b *breaker) trip(generation int, now time.Time, sentTo int64, err error) (tripped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if generation != b.generation || b.status.State != TopicHealthy {
		return false
	}
	b.generation++
	b.trialAfter.Store(sentTo)
	b.setLocked(stateFor(err), now, err)
	return true
}

// move sets the state of a topic that is not healthy.
func (b *breaker) move(state TopicState, now time.Time, err error) TopicReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setLocked(state, now, err)
	return b.status
}

func (b *breaker) setLocked(state TopicState, now time.Time, err error) {
	if (b.status.State == TopicHealthy) != (state == TopicHealthy) {
		b.status.Since = now
	}
	b.status.State = state
	switch {
	case state == TopicHealthy:
		b.status = TopicReport{Topic: b.topic, State: state, Since: b.status.Since}
	case err != nil:
		b.status.Code, b.status.Error, b.status.Answered = CodeOf(err), storedError(err), isAnswered(err)
	}
}

func stateFor(err error) TopicState {
	if ClassOf(err) == Misconfigured {
		return TopicMisconfigured
	}
	return TopicUnreachable
}
