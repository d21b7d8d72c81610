package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

var errAway = NewFailure(Retryable, "Unavailable", errors.New("connection refused"))

// outage makes the broker unreachable for one topic, or for all.
func (b *memBroker) outage(topic string) {
	b.set(func() {
		b.verdict = func(t string, _ Message) error { return awayFor(topic, t) }
		b.ready = func(t string) error { return awayFor(topic, t) }
	})
}

func awayFor(topic, asked string) error {
	if topic == "" || topic == asked {
		return errAway
	}
	return nil
}

func (b *memBroker) back() { b.set(func() { b.verdict, b.ready = nil, nil }) }

func (b *memBroker) requests() (n int) {
	b.set(func() {
		for _, k := range b.calls {
			n += k
		}
		for _, k := range b.readies {
			n += k
		}
	})
	return n
}

func TestTenMinutesWithoutBrokerCostAtMostOneAttemptEach(t *testing.T) {
	for name, publishers := range map[string]int{"one publisher": 1, "three publishers": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, func(c *Config) { c.MaxAttempts = 3 })
				b.broker.outage("")
				b.store.add(1500, "red")
				b.store.add(1, "blue")
				for i := range publishers {
					if i == 0 {
						start(t, b.Dispatcher)
					} else {
						start(t, b.another(t, func(c *Config) { c.MaxAttempts = 3 }))
					}
				}
				for range 499 {
					time.Sleep(time.Second)
					b.store.add(1, "red")
				}
				time.Sleep(101 * time.Second)
				for _, r := range b.store.all() {
					require.Empty(t, r.dead)
					require.LessOrEqual(t, r.AttemptCount, 1)
				}
				require.LessOrEqual(t, b.broker.requests(), publishers*5*600)
				b.broker.back()
				time.Sleep(10 * time.Second)
				require.Equal(t, 2000, b.store.count(isPublished))
				for _, s := range b.Topics() {
					require.Equal(t, TopicHealthy, s.State)
				}
			})
		})
	}
}

// A publisher that never gets a connection sends nothing, which is as good a reason to leave the topic alone as an answer.
func TestTenMinutesWithoutAConnectionAreAnOutage(t *testing.T) {
	unconnected := NewFailure(Retryable, "connection", errors.Join(ErrUnsent, errors.New("connection refused")))
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.set(func() {
			b.broker.verdict = func(string, Message) error { return unconnected }
			b.broker.ready = func(string) error { return unconnected }
		})
		b.store.add(2000, "red")
		start(t, b.Dispatcher)
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(t, b.broker.requests(), 5*600)
		for _, s := range b.Topics() {
			if s.Topic == "reds" {
				require.Equal(t, TopicUnreachable, s.State)
			}
		}
		for _, r := range b.store.all() {
			require.Empty(t, r.dead)
			require.Zero(t, r.AttemptCount)
		}
		b.broker.back()
		time.Sleep(10 * time.Second)
		require.Equal(t, 2000, b.store.count(isPublished))
	})
}

func TestOutageInWhichOnlyPublishingFailsSpreadsItsCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.set(func() { b.broker.verdict = func(string, Message) error { return errAway } })
		// Without a duration claims could take the whole backlog before the first refusal is heard.
		b.store.walkCost = func(int) time.Duration { return time.Millisecond }
		b.store.add(2000, "red")
		start(t, b.Dispatcher)
		time.Sleep(10 * time.Minute)
		for _, r := range b.store.all() {
			require.Empty(t, r.dead)
			require.LessOrEqual(t, r.AttemptCount, 2)
		}
		b.broker.back()
		time.Sleep(10 * time.Second)
		require.Equal(t, 2000, b.store.count(isPublished))
	})
}

func TestOutageOfOneTopicLeavesTheOtherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.outage("reds")
		b.store.add(3000, "red")
		b.store.add(3000, "blue")
		start(t, b.Dispatcher)
		time.Sleep(5 * time.Second)
		require.Equal(t, 3000, b.store.count(isPublished))
		require.Equal(t, []TopicState{TopicUnreachable}, b.observer.states("reds"))
		require.Empty(t, b.observer.states("blues"))
		b.broker.back()
		time.Sleep(10 * time.Second)
		require.Equal(t, 6000, b.store.count(isPublished))
		require.Equal(t, []TopicState{TopicUnreachable, TopicRecovering, TopicHealthy}, b.observer.states("reds"))
	})
}

func TestLoneRowTheBrokerNeverTakesStillDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.MaxAttempts = 4 })
		b.store.add(1, "red")
		b.broker.verdict = func(string, Message) error { return errAway }
		start(t, b.Dispatcher)
		time.Sleep(time.Minute)
		got := b.store.all()[0]
		require.Equal(t, outbox.ReasonMaxAttempts, got.dead, "the broker says it is ready and refuses this row")
		require.Equal(t, 4, got.AttemptCount)
	})
}

func TestMisconfiguredTopicPausesWithoutChargingRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		missing := NewFailure(Misconfigured, "NotFound", errors.New("topic does not exist"))
		check := func(topic string) error {
			if topic == "reds" {
				return missing
			}
			return nil
		}
		b.broker.verdict = func(topic string, _ Message) error { return check(topic) }
		b.broker.ready = check
		b.store.add(500, "red")
		b.store.add(500, "blue")
		start(t, b.Dispatcher)
		time.Sleep(10 * time.Minute)
		for _, r := range b.store.all() {
			require.Zero(t, r.AttemptCount)
			require.Empty(t, r.dead)
			require.False(t, r.leased())
			require.Equal(t, r.EventType == "blue", isPublished(r))
		}
		status := b.Topics()[1]
		require.Equal(t, TopicMisconfigured, status.State)
		require.Equal(t, "NotFound", status.Code)
		require.Equal(t, "topic does not exist", status.Error)
		b.broker.back()
		time.Sleep(10 * time.Second)
		require.Equal(t, 1000, b.store.count(isPublished))
	})
}

func TestSlowTopicDoesNotHoldUpTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.MaxInFlight = 1000 })
		b.broker.latency = func(topic string) time.Duration {
			if topic == "reds" {
				return 9 * time.Second
			}
			return time.Millisecond
		}
		b.store.add(5000, "red")
		b.store.add(5000, "blue")
		start(t, b.Dispatcher)
		time.Sleep(8 * time.Second)
		require.Equal(t, 5000, b.store.count(isPublished), "all of the fast topic, none of the slow one yet")
	})
}

func TestOneFailedRequestCostsAHealthyTopicLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(200, "red")
		failed := false
		b.broker.verdict = func(string, Message) error {
			if b.broker.calls["reds"] == 1 {
				failed = true
				return errAway
			}
			return nil
		}
		start(t, b.Dispatcher)
		time.Sleep(3 * time.Second)
		b.broker.set(func() { require.True(t, failed) })
		require.Equal(t, 200, b.store.count(isPublished))
	})
}

// hesitantBroker takes its time to say whether it is ready.
type hesitantBroker struct {
	*memBroker
	answer error
	after  time.Duration
	asked  atomic.Int32
}

func (b *hesitantBroker) Ready(context.Context, string) error {
	b.asked.Add(1)
	time.Sleep(b.after)
	return b.answer
}

// A backlog of rows that have failed before, and a broker that has accepted
// nothing lately: one question is enough for all groups, however long its answer
// takes.
func TestOneGroupAsksForAll(t *testing.T) {
	for name, broker := range map[string]*hesitantBroker{
		"ready":        {after: 50 * time.Millisecond},
		"ready, later": {after: 2 * time.Second},
		"away":         {after: 50 * time.Millisecond, answer: errAway},
		"away, later":  {after: 2 * time.Second, answer: errAway},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, nil)
				for _, r := range b.store.add(4000, "red") {
					r.AttemptCount = 1
				}
				b.broker.latency = func(string) time.Duration { return 100 * time.Millisecond }
				broker.memBroker = b.broker
				d, err := New(b.cfg, b.store, broker, memCatalogue{}, b.observer, nil)
				require.NoError(t, err)
				start(t, d)
				time.Sleep(broker.after + 200*time.Millisecond)
				if broker.answer == nil {
					require.EqualValues(t, 1, broker.asked.Load())
					require.Equal(t, 4000, b.store.count(isPublished))
					return
				}
				// The group's question, and the first of who watches the topic.
				require.LessOrEqual(t, broker.asked.Load(), int32(2))
				for _, r := range b.store.all() {
					require.False(t, r.leased(), "no row waits for an answer that is known")
					require.Equal(t, 1, r.AttemptCount)
				}
			})
		})
	}
}

// A trial whose turn to be sent did not come has tried nothing: closing the
// topic would let the whole backlog into the outage.
func TestUnsentTrialDoesNotCloseItsTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.outage("")
		b.store.add(1, "red")
		start(t, b.Dispatcher)
		time.Sleep(100 * time.Millisecond)
		b.store.add(499, "red")
		b.broker.set(func() {
			b.broker.ready = nil
			b.broker.verdict = func(string, Message) error { return unsent(context.DeadlineExceeded) }
		})
		time.Sleep(time.Minute)
		require.NotContains(t, b.observer.states("reds"), TopicHealthy)
		b.broker.set(func() { b.broker.verdict = nil })
		time.Sleep(time.Minute)
		require.Equal(t, 500, b.store.count(isPublished))
	})
}

// A broker that is away is asked ever more seldom, but no later than every few seconds.
func TestQuestionsToABrokerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.outage("")
		b.store.add(1, "red")
		start(t, b.Dispatcher)
		time.Sleep(10 * time.Minute)
		before := b.broker.requests()
		time.Sleep(100 * time.Second)
		asked := b.broker.requests() - before
		require.GreaterOrEqual(t, asked, 20, "every five seconds, as docs/publishing.md promises")
		require.Less(t, asked, 40)
	})
}
