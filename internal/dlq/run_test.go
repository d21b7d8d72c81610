package dlq_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
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
	res, first := b.run(ctx, change{
		Action: dlq.Replay, Source: b.open(filter),
		OnOutcomes: func([]dlq.Outcome) error { cancel(); return nil },
	})
	require.True(t, res.Interrupted)
	require.Zero(t, len(first)%dlq.ChunkSize, "a chunk that was begun is finished")
	require.Less(t, len(first), rows)
	require.EqualValues(t, len(first), b.count("SELECT count(*) FROM outbox_dlq WHERE state = 'replayed'"), "what was done was told")
	res, rest := b.run(b.ctx, change{Action: dlq.Replay, Source: b.open(filter)})
	require.Equal(t, map[string]int64{dlq.Replayed: int64(rows - len(first))}, res.Counts)
	require.NotContains(t, rest, first[0])
	require.EqualValues(t, rows, b.count("SELECT sum(affected)::bigint FROM outbox_audit"))
}

func TestADryRunChangesNothing(t *testing.T) {
	b := setup(t)
	b.many(3)
	var all []dlq.Outcome
	set, err := b.store.SetOf(b.ctx, dlq.Replay, b.open(dlq.Filter{}), false)
	require.NoError(t, err)
	res, err := set.Preview(b.ctx, dlq.DryRunParams{
		OnOutcomes: func(o []dlq.Outcome) error { all = append(all, o...); return nil },
	})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{dlq.Replay.Would(): 3}, res.Counts)
	require.Len(t, all, 3)
	require.EqualValues(t, 3, b.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
	require.EqualValues(t, 0, b.count("SELECT (SELECT count(*) FROM outbox_audit) + (SELECT count(*) FROM outbox_plans)"))
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
	res, _ := b.run(b.ctx, change{
		Action: dlq.Replay, Watch: watch, Source: b.open(dlq.Filter{}),
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
	require.Equal(t, []int64{18, 10}, []int64{res.Watched.Published, res.Watched.Dead})
	// Who looks at the plan sees what became of each step.
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_plans WHERE jsonb '[[1, 1, 0], [2, 2, 0], [5, 5, 0], [20, 10, 10]]' =
		(SELECT jsonb_agg(jsonb_build_array(s -> 'rows', s -> 'published', s -> 'dead')) FROM jsonb_array_elements(watched -> 'steps') AS s)`))
	require.Equal(t, "10 of 28 replayed events died again or keep failing (36%, allowed are 20%)", res.Stopped)
	require.EqualValues(t, 272, b.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
}

func TestARampGoesOnWhileEventsLive(t *testing.T) {
	b := setup(t)
	b.many(300)
	watch := &dlq.Watch{MaxDead: 0.05, For: time.Minute, Every: time.Millisecond}
	steps := 0
	res, _ := b.run(b.ctx, change{
		Action: dlq.Replay, Watch: watch, Source: b.open(dlq.Filter{}),
		OnOutcomes: func([]dlq.Outcome) error { steps++; b.settle(0); return nil },
	})
	require.Empty(t, res.Stopped)
	require.EqualValues(t, 300, res.Watched.Published)
	require.Len(t, res.Watched.Steps, 7)
	require.Equal(t, 7, steps)
}

func TestARampStopsWithoutAPublisher(t *testing.T) {
	b := setup(t)
	b.many(10)
	watch := &dlq.Watch{MaxDead: 1, For: 5 * time.Millisecond, Every: time.Millisecond}
	res, _ := b.run(b.ctx, change{Action: dlq.Replay, Watch: watch, Source: b.open(dlq.Filter{})})
	require.Equal(t, "none of the 1 replayed events was tried within 5ms: is a publisher running?", res.Stopped)
	require.EqualValues(t, 9, b.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
}

func TestEventsThatKeepFailingCountWithTheDead(t *testing.T) {
	b := setup(t)
	b.many(10)
	watch := &dlq.Watch{MaxDead: 0.5, For: 5 * time.Millisecond, Every: time.Millisecond}
	res, _ := b.run(b.ctx, change{
		Action: dlq.Replay, Watch: watch, Source: b.open(dlq.Filter{}),
		OnOutcomes: func([]dlq.Outcome) error {
			b.exec("UPDATE outbox_events SET attempt_count = 1, last_error = 'no' WHERE dead_at IS NULL")
			return nil
		},
	})
	require.EqualValues(t, 1, res.Watched.Failing)
	require.Contains(t, res.Stopped, "1 of 1 replayed events died again or keep failing")
}

func TestAPlanIsRunExactly(t *testing.T) {
	b := setup(t)
	b.many(1500)
	replayed, _ := b.die(death{})
	gone, goneEvent := b.die(death{})
	changed, changedEvent := b.die(death{})
	plan, leftOut, err := b.plan(change{Action: dlq.Replay, Source: b.open(dlq.Filter{})})
	require.NoError(t, err)
	require.Empty(t, leftOut)

	// One dies after the plan was made, and three of the set are no longer as they were.
	later, _ := b.die(death{})
	require.Equal(t, []string{dlq.Replayed}, b.act(dlq.Replay, replayed))
	b.exec("DELETE FROM outbox_events WHERE id = $1::text::uuid", goneEvent)
	b.exec("ALTER TABLE outbox_events DISABLE TRIGGER USER")
	b.exec(`UPDATE outbox_events SET payload_json = '{"version": 1, "data": {"forged": true}}' WHERE id = $1::text::uuid`, changedEvent)
	b.exec("ALTER TABLE outbox_events ENABLE TRIGGER USER")

	res, err := b.store.Run(b.ctx, plan, dlq.RunParams{Runner: "tester", OnOutcomes: func([]dlq.Outcome) error { return nil }})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{dlq.Replayed: 1500, dlq.AlreadyReplayed: 1, dlq.EventGone: 1, dlq.Changed: 1}, res.Counts)
	open := b.all(b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst), 100)
	require.ElementsMatch(t, []string{gone, changed, later}, open)
}

// What cannot be changed when the plan is made is not in it, and one in which there is nothing cannot be run.
func TestAPlanLeavesOutWhatCannotBeChanged(t *testing.T) {
	b := setup(t)
	good, _ := b.die(death{})
	replayed, _ := b.die(death{State: "replayed"})
	missing := uuid.NewString()
	set := []dlq.Target{{ID: replayed}, {ID: good}, {Given: missing}}
	plan, leftOut, err := b.plan(change{Action: dlq.Replay, Source: fixed(set)})
	require.NoError(t, err)
	require.EqualValues(t, 1, plan.Total)
	require.Equal(t, map[string]int64{dlq.AlreadyReplayed: 1, dlq.NotFound: 1}, plan.LeftOut)
	require.Equal(t, []string{replayed, missing}, []string{leftOut[0].ID, leftOut[1].ID})

	plan, _, err = b.plan(change{Action: dlq.Replay, Source: fixed(set[:1])})
	require.EqualError(t, err, "the dead letter could not be replayed")
	require.Equal(t, []any{"abandoned", "nothing to replay"}, []any{plan.State, plan.EndedWhy})
	_, err = b.store.Run(b.ctx, plan, dlq.RunParams{Runner: "tester"})
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "OX310", pg.Code)
}

// A plan whose making was interrupted holds a part of its set: nobody may run it.
func TestAPlanThatIsInterruptedIsAbandoned(t *testing.T) {
	b := setup(t)
	id, _ := b.die(death{})
	ctx, interrupt := context.WithCancel(b.ctx)
	set, err := b.store.SetOf(ctx, dlq.Replay, fixed([]dlq.Target{{ID: id}}), false)
	require.NoError(t, err)
	plan, err := set.Plan(ctx, dlq.PlanParams{OnBegun: func(string) { interrupt() }})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "abandoned", plan.State)
	require.Contains(t, plan.EndedWhy, "context canceled")
}
