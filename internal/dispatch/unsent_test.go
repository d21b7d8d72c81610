package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A group whose turn did not come says nothing about the broker: no row is
// charged, and its topic stays as it is.
func TestAGroupWithoutItsTurnIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		rows := b.store.add(100, "red")
		b.broker.verdict = func(string, Message) error { return unsent(context.DeadlineExceeded) }
		start(t, b.Dispatcher)
		time.Sleep(20 * time.Second)
		require.Empty(t, b.observer.states("reds"))
		require.True(t, b.breakers.at("reds").quiet(time.Now(), time.Second), "nothing was accepted")
		b.broker.set(func() { b.broker.verdict = nil })
		time.Sleep(2 * time.Second)
		for _, r := range rows {
			require.Equal(t, 1, b.broker.times(r.ID))
		}
		for _, r := range b.store.all() {
			require.Zero(t, r.AttemptCount)
		}
	})
}

// waitingBroker keeps everything waiting for its turn.
type waitingBroker struct{ *memBroker }

func (waitingBroker) Publish(ctx context.Context, _ string, msgs []Message) []Result {
	<-ctx.Done()
	results := make([]Result, len(msgs))
	for i := range results {
		results[i].Err = unsent(ctx.Err())
	}
	return results
}

// What the shutdown's patience was not enough for keeps its lease only if it
// may have been sent.
func TestShutdownGivesBackTheUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.ShutdownTimeout = 2 * time.Second })
		b.store.add(100, "red")
		d, err := New(b.cfg, b.store, waitingBroker{b.broker}, memCatalogue{}, b.observer, nil)
		require.NoError(t, err)
		stop := start(t, d)
		time.Sleep(time.Second)
		require.Equal(t, 100, b.store.count(func(r memRow) bool { return r.leased() }))
		stop()
		for _, r := range b.store.all() {
			require.False(t, r.leased())
			require.Zero(t, r.AttemptCount)
		}
	})
}

// Who was refused for a neighbour's fault, and not asked again in time, loses
// nothing by it.
func TestTheUnsentAreNotCharged(t *testing.T) {
	t.Parallel()
	d := &Dispatcher{cfg: Config{}.withDefaults(), catalogue: memCatalogue{}}
	row := &Claimed{Key: Key{ID: "a"}, AttemptCount: d.cfg.MaxAttempts - 1}
	var v Verdicts
	a := d.judgeFailure("domain", row, unsent(context.DeadlineExceeded), &v)
	require.Equal(t, OutcomeReleased, a.Outcome)
	require.Empty(t, v.Dead)
	require.Len(t, v.Failed, 1)
	require.True(t, v.Failed[0].Free)
	require.Positive(t, v.Failed[0].Delay)
}
