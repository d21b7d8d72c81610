package dispatch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// policyCatalogue is memCatalogue with a policy for red.
type policyCatalogue struct {
	memCatalogue

	red wire.Policy
}

func (c policyCatalogue) Describe(namespace, eventType string) (wire.EventType, bool) {
	t, ok := c.memCatalogue.Describe(namespace, eventType)
	if eventType == "red" {
		t.Policy = c.red
	}
	return t, ok
}

func (b *bundle) withPolicy(t *testing.T, red wire.Policy, change func(*Config)) *Dispatcher {
	t.Helper()
	cfg := Config{Names: memNames("red", "blue")}
	if change != nil {
		change(&cfg)
	}
	d, err := New(cfg, b.store, b.broker, policyCatalogue{red: red}, b.observer, nil)
	require.NoError(t, err)
	return d
}

func TestAttemptsAndBackoffOfAType(t *testing.T) {
	d := newBundle(t, nil).withPolicy(t, wire.Policy{MaxAttempts: 3, BackoffMin: time.Minute, BackoffMax: 90 * time.Second, ExpiresAfter: time.Hour},
		func(c *Config) { c.Random = func() float64 { return 1 } })
	red, blue := &Claimed{EventType: "red"}, &Claimed{EventType: "blue"}
	require.Equal(t, []int{3, DefaultMaxAttempts}, []int{d.attemptLimit(red), d.attemptLimit(blue)})
	require.Equal(t, 5, d.attemptLimit(&Claimed{EventType: "red", MaxAttempts: 5}), "an event's own limit is nearer")
	require.Equal(t, []time.Duration{time.Minute, 90 * time.Second}, []time.Duration{d.delay(red, 1), d.delay(red, 2)})
	require.Equal(t, DefaultBackoffBase, d.delay(blue, 1))

	now := time.Now()
	old := &Claimed{EventType: "red", Since: now.Add(-59*time.Minute - 50*time.Second), ReadAt: now, LastError: "away"}
	require.Equal(t, 10*time.Second, d.delay(old, 1), "it is looked at when it expires")
	require.Nil(t, expired(old, d.policy(old)))
	old.ReadAt = now.Add(10 * time.Second)
	bad := expired(old, d.policy(old))
	require.Equal(t, outbox.ReasonExpired, bad.reason)
	require.True(t, bad.judged)
	require.EqualError(t, bad, "not published within 1h, which its type allows; the last attempt failed: away")
	require.Nil(t, expired(&Claimed{EventType: "blue", Since: now.Add(-1000 * time.Hour), ReadAt: now}, d.policy(blue)))
}

func TestATypeDiesOfItsOwnAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(1, "red")
		b.store.add(1, "blue")
		b.broker.verdict = func(string, Message) error { return NewFailure(Refused, "x", errors.New("no")) }
		start(t, b.withPolicy(t, wire.Policy{MaxAttempts: 2}, nil))
		time.Sleep(20 * time.Second)
		rows := b.store.all()
		require.Equal(t, []int{2, 0}, []int{rows[0].AttemptCount, btoi(rows[1].dead != "")})
		require.NotEmpty(t, rows[0].dead)
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A type with a rate is held to it, by all publishers together, and no other type waits for it.
func TestRateOfATypeIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(1000, "red")
		b.store.add(1000, "blue")
		for range 2 {
			d := b.withPolicy(t, wire.Policy{Rate: 20}, nil)
			d.ShareRates(func(_, eventType string) int {
				require.Equal(t, "red", eventType)
				return 2
			})
			start(t, d)
		}
		sent := func(eventType string) int {
			return b.store.count(func(r memRow) bool { return isPublished(r) && r.EventType == eventType })
		}
		time.Sleep(3 * time.Second)
		require.Equal(t, 1000, sent("blue"))
		before := sent("red")
		time.Sleep(30 * time.Second)
		require.InDelta(t, 600, sent("red")-before, 30)
		require.LessOrEqual(t, before, 20*3+20)
		for _, row := range b.store.all() {
			require.Zero(t, row.AttemptCount, "what was given back has lost nothing")
		}
	})
}

func TestOnceWaitsForARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.store.add(50, "red")
		began := time.Now()
		require.NoError(t, b.withPolicy(t, wire.Policy{Rate: 10}, func(c *Config) { c.Once = true }).Run(t.Context()))
		require.Equal(t, 50, b.store.count(isPublished))
		require.InDelta(t, 4, time.Since(began).Seconds(), 1)
	})
}

// What has expired while the broker was away keeps nothing from being published when it is back.
func TestATopicComesBackBehindExpiredRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		b.broker.outage("")
		b.store.add(500, "red")
		start(t, b.withPolicy(t, wire.Policy{ExpiresAfter: time.Minute}, nil))
		time.Sleep(10 * time.Minute)
		b.broker.back()
		time.Sleep(10 * time.Second)
		require.Equal(t, 500, b.store.count(func(r memRow) bool { return r.dead == outbox.ReasonExpired }))
		b.store.add(1, "red")
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, b.store.count(isPublished))
	})
}
