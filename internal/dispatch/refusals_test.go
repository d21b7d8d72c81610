package dispatch

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

var errRefused = NewFailure(Refused, "InvalidArgument", errors.New("message does not match the schema"))

// refuse makes the broker refuse what bad names, and answer that it is ready.
func (b *memBroker) refuse(bad func(topic string, m Message) bool) {
	b.set(func() {
		b.verdict = func(topic string, m Message) error {
			if bad(topic, m) {
				return errRefused
			}
			return nil
		}
	})
}

func isDead(r memRow) bool { return r.dead != "" }

// A schema attached to a topic refuses every message with the code of a bad one,
// while the topic says that it is ready. No event may die of that.
func TestTopicThatRefusesEverythingIsMisconfigured(t *testing.T) {
	for name, publishers := range map[string]int{"one publisher": 1, "three publishers": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, nil)
				b.broker.latency = func(string) time.Duration { return 10 * time.Millisecond }
				b.broker.refuse(func(topic string, _ Message) bool { return topic == "reds" })
				b.store.add(2000, "red")
				b.store.add(500, "blue")
				start(t, b.Dispatcher)
				for range publishers - 1 {
					start(t, b.another(t, nil))
				}
				time.Sleep(15 * time.Minute)
				require.Zero(t, b.store.count(isDead))
				require.Equal(t, 500, b.store.count(isPublished), "the other topic is not held up")
				for _, r := range b.store.all() {
					require.Zero(t, r.AttemptCount)
				}
				status := b.Topics()[1]
				require.Equal(t, TopicMisconfigured, status.State)
				require.Equal(t, "the topic accepts no message: message does not match the schema", status.Error)
				require.ErrorContains(t, b.TopicReady(t.Context(), "reds"), "misconfigured: the topic accepts no message")
				require.Len(t, b.observer.topics, publishers, "told once by each")

				b.broker.back()
				time.Sleep(10 * time.Second)
				require.Equal(t, 2500, b.store.count(isPublished))
				time.Sleep(20 * time.Second) // a publisher whose rows the others took
				require.NoError(t, b.TopicReady(t.Context(), "reds"))
			})
		})
	}
}

// With nothing to compare it with, a message that the broker refuses loses its
// attempts one by one.
func TestLoneRefusedMessageOnASilentTopicDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.refuse(func(string, Message) bool { return true })
		b.store.add(1, "red")
		start(t, b.Dispatcher)
		time.Sleep(4 * time.Minute)
		require.Zero(t, b.store.count(isDead))
		require.Empty(t, b.observer.states("reds"), "one message proves nothing about its topic")
		time.Sleep(8 * time.Minute)
		got := b.store.all()[0]
		require.Equal(t, outbox.ReasonRejectedByBroker, got.dead)
		require.Equal(t, DefaultMaxAttempts, got.AttemptCount)
		require.Equal(t, errRefused.Error(), got.lastError)
	})
}

// A message that was refused alone dies when it is refused again and the topic
// has accepted another one in between.
func TestRefusedMessageDiesOnceTheTopicAcceptsAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		poison int
		key    string
	}{"one": {1, ""}, "several": {3, ""}, "several, and the other has a key": {3, "a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, nil)
				b.store.addOrdered(1, tc.key, "red")[0].next = time.Now().Add(10 * time.Second)
				bad := map[string]bool{}
				for _, r := range b.store.add(tc.poison, "red") {
					bad[r.ID] = true
				}
				b.broker.refuse(func(_ string, m Message) bool { return bad[m.EventID] })
				start(t, b.Dispatcher)
				time.Sleep(10 * time.Second)
				require.Zero(t, b.store.count(isDead))
				if tc.poison > 1 {
					require.Equal(t, []TopicState{TopicMisconfigured}, b.observer.states("reds"))
				}
				time.Sleep(20 * time.Second)
				require.Equal(t, 1, b.store.count(isPublished))
				require.Equal(t, tc.poison, b.store.count(func(r memRow) bool { return r.dead == outbox.ReasonRejectedByBroker }))
				require.Equal(t, TopicHealthy, b.Topics()[1].State)
			})
		})
	}
}

// That another publisher has seen a refusal is as good as having seen it.
func TestMessageThatAnotherPublisherWasRefusedDiesAtTheNextRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		bad := b.store.add(1, "red")[0]
		bad.AttemptCount, bad.lastError = 1, refusedMark+"no"
		b.store.add(1, "red")[0].next = time.Now().Add(2 * time.Second) // while the broker considers the first
		var sent atomic.Int32
		b.broker.latency = func(string) time.Duration {
			if sent.Add(1) == 1 {
				return 5 * time.Second
			}
			return time.Millisecond
		}
		b.broker.refuse(func(_ string, m Message) bool { return m.EventID == bad.ID })
		start(t, b.Dispatcher)
		time.Sleep(6 * time.Second)
		require.Equal(t, outbox.ReasonRejectedByBroker, b.store.all()[0].dead)
		require.Equal(t, 2, b.store.all()[0].AttemptCount)
		require.Equal(t, 1, b.store.count(isPublished))
	})
}

// A topic whose refused rows were taken by others must not stay misconfigured.
func TestMisconfiguredTopicWithoutRowsIsHealthyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		rows := b.store.add(10, "red")
		b.broker.refuse(func(string, Message) bool { return true })
		start(t, b.Dispatcher)
		time.Sleep(10 * time.Second)
		require.Equal(t, TopicMisconfigured, b.Topics()[1].State)
		b.store.mu.Lock()
		for _, r := range rows {
			r.published = time.Now()
		}
		b.store.mu.Unlock()
		time.Sleep(30 * time.Second)
		require.Equal(t, TopicHealthy, b.Topics()[1].State)
	})
}

// That no row is found for a trial may only mean that others are trying them all.
func TestMisconfiguredTopicStaysSoWhileOthersHoldItsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.latency = func(string) time.Duration { return 1500 * time.Millisecond }
		b.broker.refuse(func(string, Message) bool { return true })
		b.store.add(2, "red")
		for i := range 3 {
			start(t, b.another(t, func(c *Config) { c.Random = func() float64 { return 0.2 + 0.3*float64(i) } }))
		}
		time.Sleep(time.Minute)
		told := b.observer.told()
		time.Sleep(10 * time.Minute)
		require.Equal(t, told, b.observer.told())
		require.Zero(t, b.store.count(isDead))
	})
}

// A row that cannot be sent proves nothing about the broker.
func TestUnfitTrialDoesNotEndAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.outage("")
		b.store.add(1, "red")
		start(t, b.Dispatcher)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, TopicUnreachable, b.Topics()[1].State)
		b.store.add(1, "red")[0].AggregateType = "other"
		b.store.add(100, "red")
		b.broker.set(func() { b.broker.ready = nil })
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, b.store.count(isDead))
		require.NotContains(t, b.observer.states("reds"), TopicHealthy)
	})
}
