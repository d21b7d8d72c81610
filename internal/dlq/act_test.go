package dlq_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
)

func TestReplayQueuesTheOriginalRowAnew(t *testing.T) {
	b := setup(t)
	id, event := b.die(death{})
	b.exec("UPDATE outbox_events SET next_attempt_at = now() + interval '1 hour'")
	// A lease that still names it, beside another event, must neither hold it back nor settle it.
	b.exec("INSERT INTO outbox_leases (owner, until, seqs) SELECT gen_random_uuid(), now() + interval '1 hour', int8multirange(int8range(seq, seq + 1, '[]')) FROM outbox_events")
	before, err := b.store.Event(b.ctx, event)
	require.NoError(t, err)

	require.Equal(t, []string{dlq.Replayed}, b.act(dlq.Replay, id))

	after, err := b.store.Event(b.ctx, event)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), after.NextAttemptAt, time.Minute)
	want := before
	want.Status, want.AttemptCount, want.LastError, want.DeadAt = outbox.StatusPending, 0, nil, nil
	want.NextAttemptAt, want.DeliverAt = after.NextAttemptAt, &after.NextAttemptAt // its time counts from now
	require.Equal(t, want, after)
	require.EqualValues(t, 1, b.count("SELECT count(*) FROM outbox_leases, outbox_events WHERE seqs = int8multirange(int8range(seq + 1, seq + 1, '[]'))"))

	entries, err := b.store.Entries(b.ctx, []string{id})
	require.NoError(t, err)
	require.Equal(t, dlq.StateReplayed, entries[0].State)
	require.NotNil(t, entries[0].StateChangedAt)
	require.EqualValues(t, 1, b.count("SELECT count(*) FROM outbox_audit"))
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_dlq AS d JOIN outbox_audit AS a ON a.id = d.audit_id
		WHERE a.actor = 'tester' AND a.action = 'dlq.replay' AND a.note = 'because' AND a.affected = 1`))
}

func TestReplayTellsWhatItCouldNotDo(t *testing.T) {
	b := setup(t)
	replayed, _ := b.die(death{State: "replayed"})
	discarded, _ := b.die(death{State: "discarded"})
	live, liveEvent := b.die(death{})
	b.exec("UPDATE outbox_events SET dead_at = NULL WHERE id = $1::text::uuid", liveEvent)
	published, publishedEvent := b.die(death{})
	b.exec("UPDATE outbox_events SET dead_at = NULL, published_at = now() WHERE id = $1::text::uuid", publishedEvent)
	gone, goneEvent := b.die(death{})
	b.exec("DELETE FROM outbox_events WHERE id = $1::text::uuid", goneEvent)
	good, _ := b.die(death{})
	ids := []string{replayed, discarded, live, published, gone, uuid.NewString(), good}
	want := []string{dlq.AlreadyReplayed, dlq.Discarded, dlq.EventLive, dlq.EventPublished, dlq.EventGone, dlq.NotFound, dlq.Replayed}

	set := make([]dlq.Target, len(ids))
	for i, id := range ids {
		set[i].ID = id
	}
	preview, err := b.store.Judge(b.ctx, dlq.Replay, set)
	require.NoError(t, err)
	var previewed []string
	for _, o := range preview {
		previewed = append(previewed, o.Outcome)
	}
	require.Equal(t, want, previewed, "a preview tells the same")
	require.EqualValues(t, 0, b.count("SELECT count(*) FROM outbox_audit"), "and changes nothing")

	require.Equal(t, want, b.act(dlq.Replay, ids...))
	require.EqualValues(t, 1, b.count("SELECT affected FROM outbox_audit"))
	want[6] = dlq.AlreadyReplayed
	require.Equal(t, want, b.act(dlq.Replay, ids...))
	require.EqualValues(t, 1, b.count("SELECT count(*) FROM outbox_audit"), "nothing changed, nothing to audit")
}

func TestReplayClosesEveryOpenDeathOfTheEvent(t *testing.T) {
	b := setup(t)
	first, event := b.die(death{})
	second := b.deadLetter(event, death{At: base().Add(time.Hour)})
	require.Equal(t, []string{dlq.Replayed}, b.act(dlq.Replay, second))
	require.Equal(t, []string{dlq.AlreadyReplayed}, b.act(dlq.Replay, first))
	require.Empty(t, b.all(b.scan(dlq.Filter{State: "open"}, outbox.NewestFirst), 10))
	require.EqualValues(t, 1, b.count("SELECT sum(affected)::bigint FROM outbox_audit"), "one event was sent")
}

func TestDiscardCanBeUndone(t *testing.T) {
	b := setup(t)
	id, _ := b.die(death{})
	require.Equal(t, []string{dlq.AlreadyOpen}, b.act(dlq.Restore, id))
	require.Equal(t, []string{dlq.Discarded}, b.act(dlq.Discard, id))
	require.Equal(t, []string{dlq.AlreadyDiscarded}, b.act(dlq.Discard, id))
	require.Equal(t, []string{dlq.Restored}, b.act(dlq.Restore, id))
	require.Equal(t, []string{dlq.Replayed}, b.act(dlq.Replay, id))
	require.Equal(t, []string{dlq.AlreadyReplayed, dlq.NotFound}, b.act(dlq.Discard, id, uuid.NewString()))
	require.Equal(t, []string{dlq.AlreadyReplayed}, b.act(dlq.Restore, id))
}

func TestARestoreDoesNotReopenADeathThatIsOver(t *testing.T) {
	b := setup(t)
	discarded, event := b.die(death{State: "discarded"})
	b.exec("UPDATE outbox_events SET dead_at = NULL, published_at = now() WHERE id = $1::text::uuid", event)
	gone, goneEvent := b.die(death{State: "discarded"})
	b.exec("DELETE FROM outbox_events WHERE id = $1::text::uuid", goneEvent)
	require.Equal(t, []string{dlq.EventPublished, dlq.Restored}, b.act(dlq.Restore, discarded, gone))
}

func TestRepublishSendsAPublicationOnce(t *testing.T) {
	b := setup(t)
	_, event := b.die(death{})
	_, dead := b.die(death{})
	b.exec("UPDATE outbox_events SET dead_at = NULL, published_at = now() - interval '1 hour', broker_message_id = 'm1' WHERE id = $1::text::uuid", event)
	var seen []dlq.Target
	for targets, err := range b.store.Named(b.ctx, dlq.Republish, []string{event, dead}) {
		require.NoError(t, err)
		seen = append(seen, targets...)
	}
	act := func() map[string]int64 {
		res, _ := b.run(b.ctx, change{Action: dlq.Republish, Source: fixed(seen)})
		return res.Counts
	}
	require.Equal(t, map[string]int64{dlq.Republished: 1, dlq.Dead: 1}, act())
	row, err := b.store.Event(b.ctx, event)
	require.NoError(t, err)
	require.Equal(t, outbox.StatusPending, row.Status)
	require.Equal(t, "m1", *row.BrokerMessageID, "a publisher knows by it that it sends a copy")
	require.Equal(t, map[string]int64{dlq.NotPublished: 1, dlq.Dead: 1}, act())
	b.exec("UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid", event)
	require.Equal(t, map[string]int64{dlq.Changed: 1, dlq.Dead: 1}, act(), "published again since it was seen")
}

func TestTwoOperatorsReplayEachRowOnce(t *testing.T) {
	b := setup(t)
	const rows = 1000
	b.many(rows)
	ids := b.all(b.scan(dlq.Filter{State: "open"}, outbox.OldestFirst), rows)
	reversed := slices.Clone(ids)
	slices.Reverse(reversed)
	var wg sync.WaitGroup
	results := make([]dlq.RunResult, 2)
	// In opposite orders: they meet in the middle, and would deadlock if the order of ids did not rule.
	for i, order := range [][]string{ids, reversed} {
		source := b.store.Named(b.ctx, dlq.Replay, order)
		wg.Add(1)
		go func() {
			defer wg.Done()
			results[i], _ = b.run(b.ctx, change{Action: dlq.Replay, Source: small(source, 150)})
		}()
	}
	wg.Wait()
	for _, r := range results {
		require.EqualValues(t, rows, r.Counts[dlq.Replayed]+r.Counts[dlq.AlreadyReplayed], "each is told the truth: %v", r.Counts)
	}
	require.EqualValues(t, rows, results[0].Counts[dlq.Replayed]+results[1].Counts[dlq.Replayed])
	require.EqualValues(t, rows, b.count("SELECT sum(affected)::bigint FROM outbox_audit"))
	require.EqualValues(t, rows, b.count("SELECT count(*) FROM outbox_event_status WHERE status = 'pending' AND attempt_count = 0"))
	require.EqualValues(t, rows, b.count("SELECT count(DISTINCT x) FROM outbox_audit, jsonb_array_elements_text(detail -> 'eventIds') AS x"))
}

// small hands out a source in smaller pieces.
func small(source dlq.Source, n int) dlq.Source {
	return func(yield func([]dlq.Target, error) bool) {
		for targets, err := range source {
			for part := range slices.Chunk(targets, n) {
				if !yield(part, err) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Where a role's default would turn waiting for another operator into an error, and in the driver's modes for poolers.
func TestActWorksInEveryModeAndIsolation(t *testing.T) {
	b := setup(t)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeDescribeExec} {
		config, err := pgxpool.ParseConfig(b.url)
		require.NoError(t, err)
		config.ConnConfig.DefaultQueryExecMode = mode
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
		config.ConnConfig.RuntimeParams["TimeZone"] = "America/New_York"
		pool, err := pgxpool.NewWithConfig(b.ctx, config)
		require.NoError(t, err)
		other := &bundle{t: t, ctx: b.ctx, pool: pool, url: b.url, store: dlq.New(pool, registry.New())}

		id, event := b.die(death{Error: "mode"})
		filter := dlq.Filter{State: "open", Reasons: []string{"max_attempts"}, Types: []string{"order_canceled", "order_expired"}, ErrorLike: "mode", Since: base()}
		require.Equal(t, []string{id}, other.all(other.scan(filter, outbox.NewestFirst), 1))
		require.Equal(t, []string{dlq.Replayed}, other.act(dlq.Replay, id))
		b.exec("UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid", event)
		scan, err := other.store.ScanEvents(outbox.Filter{Status: outbox.StatusPublished, Types: []string{"order_canceled"}, Until: time.Now().Add(time.Hour)}, outbox.OldestFirst, true)
		require.NoError(t, err)
		res, _ := other.run(b.ctx, change{Action: dlq.Republish, Source: dlq.Scanned(b.ctx, scan)})
		require.Equal(t, map[string]int64{dlq.Republished: 1}, res.Counts)
		_, err = other.store.Identity(b.ctx)
		require.NoError(t, err)
		pool.Close()
	}
}

func TestOperatorsChangeOnlyThroughTheFunctions(t *testing.T) {
	b := setup(t)
	id, event := b.die(death{})
	as := func(role, sql string, args ...any) string {
		tx, err := b.pool.Begin(b.ctx)
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(b.ctx)) }()
		_, err = tx.Exec(b.ctx, "SET LOCAL ROLE "+role)
		require.NoError(t, err)
		_, err = tx.Exec(b.ctx, sql, args...)
		var pg *pgconn.PgError
		if err == nil {
			return "ok"
		}
		require.ErrorAs(t, err, &pg)
		return pg.Code
	}
	const denied = "42501"
	for _, f := range []string{"dlq.replay", "dlq.discard", "dlq.restore"} {
		call := "SELECT * FROM outbox_change('" + f + "', ARRAY[$1::text::uuid], 'op')"
		require.Equal(t, "ok", as("outbox_operator", call, id), f)
		for _, role := range []string{"outbox_viewer", "outbox_emitter", "outbox_dispatcher"} {
			require.Equal(t, denied, as(role, call, id), "%s as %s", f, role)
		}
	}
	republish := "SELECT * FROM outbox_change('event.republish', ARRAY[$1::text::uuid], 'op')"
	require.Equal(t, "ok", as("outbox_operator", republish, event))
	require.Equal(t, denied, as("outbox_viewer", republish, event))
	require.Equal(t, denied, as("outbox_operator", "UPDATE outbox_dlq SET state = 'replayed'"))
	require.Equal(t, denied, as("outbox_operator", "UPDATE outbox_events SET dead_at = NULL"))
	require.Equal(t, denied, as("outbox_operator", "INSERT INTO outbox_audit (actor, action) VALUES ('x', 'y')"))
	require.Equal(t, denied, as("outbox_operator", "SELECT outbox_audit_change('a', 'b', 'c', '{}', '{}', 1)"))
	require.Equal(t, "OX300", as("outbox_operator", "SELECT * FROM outbox_change('dlq.replay', ARRAY[$1::text::uuid], '  ')", id))
	require.Equal(t, "OX300", as("outbox_operator", "SELECT * FROM outbox_change('dlq.edit', ARRAY[$1::text::uuid], 'op')", id))
}
