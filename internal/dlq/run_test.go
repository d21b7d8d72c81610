package dlq_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func TestAnInterruptedRunIsResumable(t *testing.T) {
	b := setup(t)
	const rows = 6500
	b.many(rows)
	ctx, cancel := context.WithCancel(b.ctx)
	filter := dlq.Filter{State: "open", Until: time.Now()}
	res, first := b.run(ctx, dlq.RunParams{
		Action: dlq.Replay, Source: b.scan(filter, outbox.OldestFirst),
		OnOutcomes: func([]dlq.Outcome) error { cancel(); return nil },
	})
	require.True(t, res.Interrupted)
	require.Zero(t, len(first)%dlq.ChunkSize, "a chunk that was begun is finished")
	require.Less(t, len(first), rows)
	require.EqualValues(t, len(first), b.count("SELECT count(*) FROM outbox_dlq WHERE state = 'replayed'"), "what was done was told")
	res, rest := b.run(b.ctx, dlq.RunParams{Action: dlq.Replay, Source: b.scan(filter, outbox.OldestFirst)})
	require.Equal(t, map[string]int64{dlq.Replayed: int64(rows - len(first))}, res.Counts)
	require.NotContains(t, rest, first[0])
	require.EqualValues(t, rows, b.count("SELECT sum(affected)::bigint FROM outbox_audit"))
}

func TestADryRunChangesNothing(t *testing.T) {
	b := setup(t)
	b.many(3)
	res, all := b.run(b.ctx, dlq.RunParams{
		Action: dlq.Replay, DryRun: true, Source: b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst),
		Rate: 2, Watch: &dlq.Watch{MaxDead: 1, For: time.Minute, Every: time.Minute},
	})
	require.Equal(t, 1, res.Chunks, "nothing is sent, so nothing is paced")
	require.Equal(t, map[string]int64{dlq.Replay.Would(): 3}, res.Counts)
	require.Len(t, all, 3)
	require.EqualValues(t, 3, b.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
	require.EqualValues(t, 0, b.count("SELECT count(*) FROM outbox_audit"))
}

// publisher settles what was replayed, the way the test wants it.
func (b *bundle) settle(deadEvery int) {
	b.exec(`
WITH due AS (SELECT id, row_number() OVER (ORDER BY seq) AS n FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL)
UPDATE outbox_events AS e
   SET published_at = CASE WHEN $1 = 0 OR n % $1 <> 0 THEN now() END, dead_at = CASE WHEN $1 > 0 AND n % $1 = 0 THEN now() END
  FROM due WHERE due.id = e.id`, deadEvery)
}

func TestARampStopsWhenEventsDieAgain(t *testing.T) {
	b := setup(t)
	b.many(300)
	var steps []int
	watch := &dlq.Watch{MaxDead: 0.2, For: time.Minute, Every: time.Millisecond}
	res, _ := b.run(b.ctx, dlq.RunParams{
		Action: dlq.Replay, Watch: watch, Source: b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst),
		OnOutcomes: func(o []dlq.Outcome) error {
			steps = append(steps, len(o))
			if len(steps) < 4 {
				b.settle(0)
			} else {
				b.settle(2)
			}
			return nil
		},
	})
	require.Equal(t, []int{1, 2, 5, 20}, steps)
	require.Equal(t, dlq.Watched{Published: 18, Dead: 10}, res.Watched)
	require.Equal(t, "10 of 28 replayed events died again or keep failing (36%, allowed are 20%)", res.Stopped)
	require.EqualValues(t, 272, b.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
}

func TestARampGoesOnWhileEventsLive(t *testing.T) {
	b := setup(t)
	b.many(300)
	watch := &dlq.Watch{MaxDead: 0.05, For: time.Minute, Every: time.Millisecond}
	res, _ := b.run(b.ctx, dlq.RunParams{
		Action: dlq.Replay, Watch: watch, Source: b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst),
		OnOutcomes: func([]dlq.Outcome) error { b.settle(0); return nil },
	})
	require.Empty(t, res.Stopped)
	require.Equal(t, dlq.Watched{Published: 300}, res.Watched)
	require.Equal(t, 7, res.Chunks)
}

func TestARampStopsWithoutAPublisher(t *testing.T) {
	b := setup(t)
	b.many(10)
	watch := &dlq.Watch{MaxDead: 1, For: 5 * time.Millisecond, Every: time.Millisecond}
	res, _ := b.run(b.ctx, dlq.RunParams{Action: dlq.Replay, Watch: watch, Source: b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst)})
	require.Equal(t, "none of the 1 replayed events was tried within 5ms: is a publisher running?", res.Stopped)
	require.EqualValues(t, 9, b.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
}

func TestEventsThatKeepFailingCountWithTheDead(t *testing.T) {
	b := setup(t)
	b.many(10)
	watch := &dlq.Watch{MaxDead: 0.5, For: 5 * time.Millisecond, Every: time.Millisecond}
	res, _ := b.run(b.ctx, dlq.RunParams{
		Action: dlq.Replay, Watch: watch, Source: b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst),
		OnOutcomes: func([]dlq.Outcome) error {
			b.exec("UPDATE outbox_events SET attempt_count = 1, last_error = 'no' WHERE dead_at IS NULL")
			return nil
		},
	})
	require.Equal(t, dlq.Watched{Failing: 1}, res.Watched)
	require.Contains(t, res.Stopped, "1 of 1 replayed events died again or keep failing")
}

// freeze writes a plan of all open dead letters.
func (b *bundle) freeze() []byte {
	b.t.Helper()
	here, err := b.store.Identity(b.ctx)
	require.NoError(b.t, err)
	now, err := b.store.Now(b.ctx)
	require.NoError(b.t, err)
	var file bytes.Buffer
	_, _, err = b.store.WritePlan(b.ctx, &file, dlq.PlanHeader{
		Action: dlq.Replay, CreatedAt: now, Author: "tester", Database: here, Filter: dlq.Filter{State: "open"},
	}, b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst))
	require.NoError(b.t, err)
	return file.Bytes()
}

func (b *bundle) apply(plan []byte) map[string]int64 {
	b.t.Helper()
	header, _, err := dlq.CheckPlan(bytes.NewReader(plan))
	require.NoError(b.t, err)
	source, err := dlq.OpenPlan(bytes.NewReader(plan))
	require.NoError(b.t, err)
	res, _ := b.run(b.ctx, dlq.RunParams{Action: dlq.Replay, Source: source, Plan: &header, Detail: map[string]any{"planId": header.ID}})
	return res.Counts
}

func TestAPlanIsAppliedExactly(t *testing.T) {
	b := setup(t)
	b.many(1500)
	replayed, _ := b.die(death{})
	gone, goneEvent := b.die(death{})
	changed, changedEvent := b.die(death{})
	plan := b.freeze()
	header, count, err := dlq.CheckPlan(bytes.NewReader(plan))
	require.NoError(t, err)
	require.EqualValues(t, 1503, count)
	here, err := b.store.Identity(b.ctx)
	require.NoError(t, err)
	require.True(t, header.Database.Same(here))
	require.False(t, header.Database.Same(dlq.Identity{SystemIdentifier: here.SystemIdentifier, OID: 1}))

	// The world moves on: another death, and three of the set drift.
	later, _ := b.die(death{})
	require.Equal(t, []string{dlq.Replayed}, b.act(dlq.Replay, replayed))
	b.exec("DELETE FROM outbox_events WHERE id = $1::text::uuid", goneEvent)
	b.exec("ALTER TABLE outbox_events DISABLE TRIGGER USER")
	b.exec(`UPDATE outbox_events SET payload_json = '{"version": 1, "data": {"forged": true}}' WHERE id = $1::text::uuid`, changedEvent)
	b.exec("ALTER TABLE outbox_events ENABLE TRIGGER USER")

	require.Equal(t, map[string]int64{dlq.Replayed: 1500, dlq.AlreadyReplayed: 1, dlq.EventGone: 1, dlq.Changed: 1}, b.apply(plan))
	open := b.all(b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst), 100)
	require.ElementsMatch(t, []string{gone, changed, later}, open)

	// Applied once more, as after an interruption, it knows its own work.
	require.Equal(t, map[string]int64{dlq.DoneByPlan: 1500, dlq.AlreadyReplayed: 1, dlq.EventGone: 1, dlq.Changed: 1}, b.apply(plan))
}

func TestADamagedPlanIsRefused(t *testing.T) {
	b := setup(t)
	b.many(3)
	plan := string(b.freeze())
	head, _, _ := strings.Cut(plan, `    {"id"`)
	last := plan[strings.LastIndex(plan, `    {"id"`):]
	for name, damaged := range map[string]string{
		"empty":           "",
		"no JSON":         "hello",
		"an array":        "[]",
		"another format":  strings.Replace(plan, "outboxctl/plan", "something/else", 1),
		"another version": strings.Replace(plan, `"version": 1`, `"version": 2`, 1),
		"cut off":         plan[:len(plan)*2/3],
		"cut off at end":  strings.TrimRight(plan, "}\n"),
		"an item lost":    head + last,
		"another author":  strings.Replace(plan, "tester", "nobody", 1),
		"something after": plan + "{}",
		"bad id":          strings.Replace(plan, `{"id":"`, `{"id":"x`, 1),
		"no database":     strings.Replace(plan, "systemIdentifier", "systemName", 1),
		"no items":        `{"format": "outboxctl/plan", "version": 1}`,
	} {
		_, _, err := dlq.CheckPlan(strings.NewReader(damaged))
		require.ErrorIs(t, err, dlq.ErrPlan, name)
	}
	_, n, err := dlq.CheckPlan(strings.NewReader(plan))
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}
