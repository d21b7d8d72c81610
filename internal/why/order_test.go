package why_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/check"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/why"
)

// keyed emits n events of one ordering key.
func (b *bundle) keyed(n int) (ids []string) {
	b.t.Helper()
	for range n {
		id := uuid.NewString()
		b.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key, created_at)
			VALUES ($1::text::uuid, 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'default/a', now() - interval '1 hour')`, id)
		ids = append(ids, id)
	}
	return ids
}

func TestOperatorsSeeWhatADeadHeadHoldsBack(t *testing.T) {
	b := setup(t)
	ids := b.keyed(5)
	require.Contains(t, b.why(ids[3]).Explanation, "waits its turn in the ordering key default/a, 3 ahead; the first, "+ids[0]+", waits for its turn")
	head := b.dieAgain(ids[0], "rejected_by_broker", "no")
	second := b.dieAgain(ids[1], "max_attempts", "no")
	b.exec("INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) VALUES (gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}')")

	told := b.why(ids[3])
	require.Equal(t, why.Parked, told.State)
	require.Contains(t, told.Explanation, "3 ahead; the first, "+ids[0]+", died")
	require.Contains(t, told.Explanation, "for the reason rejected_by_broker: no.")
	require.Contains(t, told.Commands, "outboxctl dlq show "+head+" --payload pretty")
	require.Contains(t, b.why(ids[0]).Explanation, "3 events of its ordering key default/a wait behind it.")

	r, err := stats.Collect(b.ctx, b.outbox.DB, b.outbox.Registry, stats.Params{MaxAttempts: 10, By: "type"})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1, 3, 1}, []int64{r.Backlog, r.Due, r.Parked, r.BlockedKeys})
	require.Less(t, r.OldestAgeSeconds, 600.0, "parked events have no age that a publisher could help")
	require.NotNil(t, r.OldestParkedAt)
	require.EqualValues(t, 3, r.Groups[0].Parked)
	sample, err := stats.TakeSample(b.ctx, b.db.Pool, 10)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 3, 1}, []int64{sample.Backlog, sample.Parked, sample.BlockedKeys})
	limit := 2.0
	verdict, err := check.Run(b.ctx, b.outbox.DB, b.outbox.Registry, check.Params{MaxAttempts: 10, Parked: check.Threshold{Critical: &limit}})
	require.NoError(t, err)
	require.Equal(t, check.Critical, verdict.Level)
	require.Contains(t, verdict.Alarms, "parked 3, above 2")

	letter, err := why.DeadLetter(b.ctx, b.outbox, why.DetailParams{ID: head})
	require.NoError(t, err)
	require.Equal(t, "default/a", *letter.OrderingKey)
	require.EqualValues(t, 3, letter.Blocks)

	choose := func(action dlq.Action, ids ...string) *dlq.ChangeSet {
		set, err := b.outbox.ChooseChange(b.ctx, dlq.ChangeParams{Action: action, IDs: ids})
		require.NoError(t, err)
		return set
	}
	require.EqualValues(t, 0, choose(dlq.Discard, head).Releases, "the second one is dead too")
	require.EqualValues(t, 3, choose(dlq.Discard, head, second).Releases)
	require.EqualValues(t, 1, choose(dlq.Replay, second).Behind)
	require.EqualValues(t, 0, choose(dlq.Replay, head, second).Behind)
	set, err := b.outbox.ChooseChange(b.ctx, dlq.ChangeParams{Action: dlq.Discard, DeadLetters: &dlq.Filter{State: dlq.StateOpen, Blocking: true}})
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3}, []int64{set.Total, set.Releases})

	b.act(dlq.Discard, head)
	b.act(dlq.Discard, second)
	entries, err := b.outbox.ScanDeadLetters(dlq.Filter{Blocking: true}, outbox.NewestFirst)
	require.NoError(t, err)
	left, err := entries.List(b.ctx, 10)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, why.NoPublisher, b.why(ids[2]).State)
}

func TestDoctorLooksAtWhatKeepsTheOrder(t *testing.T) {
	b := setup(t)
	var asked bool
	p := doctor.Params{
		Registry: unreachable().Registry, Now: unreachable().Now, Redis: unreachable().Redis,
		Database: func(context.Context) (*pgread.DB, error) { return b.reads(), nil },
		Kind:     broker.Kind{Name: "pubsub"},
		Broker: func(context.Context) (broker.Broker, []broker.PlannedTopic, error) {
			return found{asked: &asked, odd: []broker.Finding{{Warn: true, Remedy: "set pubsub.endpoint", Message: "keys keep their order only within one region"}}}, nil, nil
		},
	}
	require.Empty(t, levels(t, p, "pubsub"))
	require.False(t, asked)
	b.keyed(1)
	require.Equal(t, map[string]doctor.Level{"keys keep their order only within one region": doctor.Warn}, levels(t, p, "pubsub"))
	require.True(t, asked, "subscriptions are asked for their order")

	b.exec("ALTER TABLE outbox_events ALTER COLUMN seq SET CACHE 20")
	require.Equal(t, doctor.Fail, levels(t, p, "database")["seq is drawn in blocks of 20: events of an ordering key get the wrong order"])
}

// What waits for a time is no backlog, nor is what waits behind it in its ordering key.
func TestOperatorsSeeWhatAScheduledHeadHoldsBack(t *testing.T) {
	b := setup(t)
	ids := b.keyed(3)
	b.exec("UPDATE outbox_events SET deliver_at = now() + interval '2 hours', next_attempt_at = now() + interval '2 hours' WHERE id = $1::text::uuid", ids[1])
	alone := b.emit("", 0)
	b.exec("UPDATE outbox_events SET deliver_at = now() + interval '1 hour', next_attempt_at = now() + interval '1 hour' WHERE id = $1::text::uuid", alone)
	b.publisher("{}", "1 second")

	figures := func() []int64 {
		t.Helper()
		r, err := stats.Collect(b.ctx, b.outbox.DB, b.outbox.Registry, stats.Params{MaxAttempts: 10, By: "type"})
		require.NoError(t, err)
		sample, err := stats.TakeSample(b.ctx, b.db.Pool, 10)
		require.NoError(t, err)
		require.Equal(t, []int64{r.Backlog, r.Scheduled}, []int64{sample.Backlog, sample.Scheduled})
		require.Equal(t, []int64{r.Backlog, r.Scheduled}, []int64{r.Groups[0].Backlog, r.Groups[0].Scheduled})
		return []int64{r.Backlog, r.Due, r.BackingOff, r.Scheduled, r.BehindScheduled, r.Parked, sample.Claimable}
	}
	require.Equal(t, []int64{1, 1, 0, 2, 1, 0, 1}, figures())
	b.exec("UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid", ids[0])
	told := b.why(ids[2])
	require.Equal(t, why.Waiting, told.State)
	require.Contains(t, told.Explanation, "1 ahead; the first, "+ids[1]+", is scheduled: it is published 2 hours from now")
	require.Equal(t, why.Scheduled, b.why(ids[1]).State)
	require.Equal(t, []string{ids[1], alone}, b.listed(outbox.StatusScheduled))
	require.Equal(t, []string{ids[2]}, b.listed(outbox.StatusPending))

	// Brought forward it is due, and counts from now on.
	_, outcomes, err := b.change(dlq.ChangeParams{Action: dlq.Retry, IDs: []string{ids[1]}, Actor: "ann"})
	require.NoError(t, err)
	require.Equal(t, dlq.Retried, outcomes[0].Outcome)
	require.Equal(t, []int64{2, 2, 0, 1, 0, 0, 2}, figures())
}

// listed are the events of a status, in the order of its list.
func (b *bundle) listed(status string) (ids []string) {
	b.t.Helper()
	_, err := b.outbox.ListEvents(b.ctx, outbox.ListParams{Filter: outbox.Filter{Status: status}}, func(e outbox.Event) error {
		ids = append(ids, e.ID)
		return nil
	})
	require.NoError(b.t, err)
	return ids
}
