package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// bundle is a dispatcher on fakes, inside a synctest bubble.
type bundle struct {
	store    *memStore
	broker   *memBroker
	observer *memObserver
	*Dispatcher
}

func newBundle(t *testing.T, change func(*Config)) *bundle {
	t.Helper()
	b := &bundle{store: &memStore{}, broker: newMemBroker(), observer: &memObserver{}}
	b.Dispatcher = b.another(t, change)
	return b
}

// another is a second dispatcher on the same store and broker.
func (b *bundle) another(t *testing.T, change func(*Config)) *Dispatcher {
	t.Helper()
	cfg := Config{Names: memNames("red", "blue")}
	if change != nil {
		change(&cfg)
	}
	d, err := New(cfg, b.store, b.broker, memCatalogue{}, b.observer, nil)
	require.NoError(t, err)
	return d
}

// start runs the dispatcher and returns what stops it and waits.
func start(t *testing.T, d *Dispatcher) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-done)
	}
	t.Cleanup(stop)
	return stop
}

func TestRunPublishesEachRowOnceAndSettlesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(3000, "red")
		b.store.add(3000, "blue")
		stop := start(t, b.Dispatcher)
		time.Sleep(2 * time.Second)
		late := b.store.add(1, "red")[0]
		time.Sleep(time.Second)
		stop()
		for _, r := range b.store.all() {
			require.True(t, isPublished(r), r.ID)
			require.Equal(t, "m-"+r.ID, r.messageID)
			require.Equal(t, 1, b.broker.times(r.ID))
			require.Equal(t, string(r.Payload), string(b.broker.messages[r.ID].Data))
		}
		require.Equal(t, wire.Attributes(wire.Row{ID: late.ID, EventType: "red", AggregateType: "thing", AggregateID: late.AggregateID, CreatedAt: late.CreatedAt}), b.broker.messages[late.ID].Attributes)
		require.Zero(t, b.observer.lost)
		rows, bytes := b.InFlight()
		require.Zero(t, rows)
		require.Zero(t, bytes)
	})
}

// The number in the log is the attempt's own, whatever came of it.
func TestAttemptsAreNumberedFromOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		answers := []error{
			NewFailure(Retryable, "Unavailable", errors.New("away")),
			NewFailure(Misconfigured, "NotFound", errors.New("no topic")), // costs nothing, so the next has the same number
			unsent(context.DeadlineExceeded),                              // was none
			nil,
		}
		b.broker.verdict = func(string, Message) error {
			answer := answers[0]
			answers = answers[1:]
			return answer
		}
		b.store.add(1, "red")
		stop := start(t, b.Dispatcher)
		time.Sleep(10 * time.Minute)
		type seen struct {
			outcome Outcome
			number  int
		}
		var got []seen
		stop()
		for _, a := range b.observer.attempts {
			got = append(got, seen{a.Outcome, a.Number})
		}
		require.Equal(t, []seen{{OutcomeFailed, 1}, {OutcomeReleased, 2}, {OutcomeReleased, 1}, {OutcomePublished, 2}}, got)
	})
}

func TestThreeDispatchersShareWithoutDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.latency = func(string) time.Duration { return 20 * time.Millisecond }
		b.store.add(5000, "red")
		for _, d := range []*Dispatcher{b.Dispatcher, b.another(t, nil), b.another(t, nil)} {
			start(t, d)
		}
		time.Sleep(5 * time.Second)
		for _, r := range b.store.all() {
			require.Equal(t, 1, b.broker.times(r.ID))
			require.True(t, isPublished(r))
		}
	})
}

func TestOnceDrainsAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.Once = true })
		b.broker.latency = func(string) time.Duration { return 50 * time.Millisecond }
		b.store.add(2500, "red")
		later := b.store.add(1, "red")[0]
		later.next = time.Now().Add(time.Hour)
		require.NoError(t, b.Run(t.Context()))
		require.Equal(t, 2500, b.store.count(isPublished), "a row that waits for its next attempt is not waited for")
	})
}

// A helper may still be claiming when the leader finds nothing more: what it got is
// published, not given back.
func TestOnceWaitsForEveryHelper(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			b := newBundle(t, func(c *Config) { c.Once, c.Workers = true, 4 })
			random := rand.New(rand.NewPCG(seed, 0))
			b.store.walkCost = func(int) time.Duration { return time.Duration(random.IntN(100)) * time.Millisecond }
			b.store.add(300, "red")
			require.NoError(t, b.Run(t.Context()))
			require.Equal(t, 300, b.store.count(isPublished), "seed %d", seed)
		})
	}
}

func TestOnceReportsADatabaseThatStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.Once = true })
		b.store.fail = func(string) error { return errors.New("connection refused") }
		require.ErrorContains(t, b.Run(t.Context()), "connection refused")
	})
}

func TestFailuresBackOffAndEndInTheDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.MaxAttempts = 3; c.Random = func() float64 { return 1 } })
		rows := b.store.add(3, "red")
		bad, short := rows[1].ID, rows[2].ID
		rows[2].MaxAttempts = 1
		b.broker.verdict = func(_ string, m Message) error {
			if m.EventID == bad || m.EventID == short {
				return NewFailure(Retryable, "Internal", errors.New("cannot store "+m.EventID))
			}
			return nil
		}
		start(t, b.Dispatcher)
		time.Sleep(900 * time.Millisecond)
		all := b.store.all()
		require.True(t, isPublished(all[0]))
		require.Equal(t, 1, all[1].AttemptCount)
		require.Equal(t, "cannot store "+bad, all[1].lastError)
		require.Equal(t, outbox.ReasonMaxAttempts, all[2].dead, "the row's own maximum holds")
		time.Sleep(10 * time.Second)
		all = b.store.all()
		require.Equal(t, outbox.ReasonMaxAttempts, all[1].dead)
		require.Equal(t, 3, all[1].AttemptCount)
	})
}

// A row that is at its limit when it is claimed dies of what its attempts failed
// of: its error was true, and "no attempts left" would hide it.
func TestRowAtItsLimitDiesOfItsTrueCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.MaxAttempts = 3 })
		rows := b.store.add(5, "red")
		rows[0].AttemptCount, rows[0].lastError = 5, "quota exceeded" // the maximum was lowered
		rows[1].AttemptCount = 2
		b.store.leaseUntil(time.Now(), rows[1])
		rows[2].AttemptCount = 3
		rows[3].AttemptCount, rows[3].lastError = 3, refusedMark+"bad payload; then the lease expired"
		start(t, b.Dispatcher)
		time.Sleep(time.Second)
		require.Equal(t, outbox.ReasonRejectedByBroker, b.store.all()[3].dead)
		require.Equal(t, "bad payload; then the lease expired", b.store.all()[3].lastError)
		for i, want := range []string{"quota exceeded", "lease expired", "no attempts left: 3 of 3 were used, and none has left an error"} {
			got := b.store.all()[i]
			require.Equal(t, outbox.ReasonMaxAttempts, got.dead)
			require.Equal(t, want, got.lastError)
		}
		require.Equal(t, 1, b.store.count(isPublished))
	})
}

func TestRowsThatCanNeverBeSentDieWithoutARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		unknown := b.store.add(1, "green")[0]
		aggregate := b.store.add(1, "red")[0]
		aggregate.AggregateType = "other"
		payload := b.store.add(1, "red")[0]
		payload.Payload = []byte(`{"version":1,"eventId":"` + payload.ID + `","occurredAt":"2026-01-01T00:00:00Z","data":"poison"}`)
		envelope := b.store.add(1, "red")[0]
		envelope.Payload = []byte(`{"data":{}}`)
		large := b.store.add(1, "red")[0]
		large.Headers = fmt.Appendf(nil, `{"h":"%01025d"}`, 0)
		spent := b.store.add(1, "red")[0]
		spent.AttemptCount = 10
		good := b.store.add(1, "red")[0]
		start(t, b.Dispatcher)
		time.Sleep(time.Second)
		got := map[string]outbox.DeadReason{}
		for _, r := range b.store.all() {
			got[r.ID] = r.dead
			require.False(t, r.leased())
		}
		require.Equal(t, map[string]outbox.DeadReason{
			unknown.ID: outbox.ReasonUnknownEventType, aggregate.ID: outbox.ReasonAggregateMismatch, payload.ID: outbox.ReasonInvalidPayload,
			envelope.ID: outbox.ReasonInvalidPayload, large.ID: outbox.ReasonMessageTooLarge, spent.ID: outbox.ReasonMaxAttempts, good.ID: "",
		}, got)
		require.Len(t, b.broker.stored, 1)
		require.Equal(t, 1, b.broker.calls["reds"])
	})
}

func TestRejectedByTheBrokerDiesAloneAndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		rows := b.store.add(10, "red")
		b.broker.verdict = func(_ string, m Message) error {
			if m.EventID == rows[4].ID {
				return NewFailure(Refused, "InvalidArgument", errors.New("no"))
			}
			return nil
		}
		start(t, b.Dispatcher)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 9, b.store.count(isPublished))
		dead := b.store.all()[4]
		require.Equal(t, outbox.ReasonRejectedByBroker, dead.dead)
		require.Equal(t, 1, dead.AttemptCount)
		require.Empty(t, b.observer.states("reds"), "one bad message is no reason to stop its topic")
	})
}

func TestExpiredLeaseIsReclaimedAndCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		row := b.store.add(1, "red")[0]
		b.store.leaseUntil(time.Now().Add(7*time.Second), row)
		start(t, b.Dispatcher)
		time.Sleep(6 * time.Second)
		require.Zero(t, b.broker.times(row.ID))
		time.Sleep(2 * time.Second)
		got := b.store.all()[0]
		require.True(t, isPublished(got))
		require.Equal(t, 1, got.AttemptCount)
	})
}

func TestZombieCannotSettleForItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		row := b.store.add(1, "red")[0]
		// The lease is ended before the publish is, and another publisher has the row.
		b.broker.latency = func(string) time.Duration {
			b.store.mu.Lock()
			defer b.store.mu.Unlock()
			b.store.forget(row)
			b.store.lease([]*memRow{row}, "another", time.Now().Add(time.Minute), &leased{})
			return time.Millisecond
		}
		stop := start(t, b.Dispatcher)
		time.Sleep(100 * time.Millisecond)
		stop()
		require.Equal(t, 1, b.observer.lost)
		require.False(t, isPublished(b.store.all()[0]))
	})
}

func TestConfigurationProblemsAreReportedTogether(t *testing.T) {
	t.Parallel()
	err := Config{Lease: 10 * time.Second, BatchSize: -1, MaxAttempts: -1}.Validate()
	require.ErrorContains(t, err, "batch size must be at least 1")
	require.ErrorContains(t, err, "max attempts must be at least 1")
	require.ErrorContains(t, err, "lease 10s must be longer than publish timeout 10s plus 100ms")
	require.ErrorContains(t, Config{PollInterval: DefaultLease}.Validate(), "poll interval 30s must be shorter than lease 30s")
	require.NoError(t, Config{PollInterval: DefaultLease - time.Millisecond}.Validate())
	require.NoError(t, Config{Lease: 2 * time.Second, PublishTimeout: time.Second}.Validate())
	require.NoError(t, Config{}.Validate())
}
