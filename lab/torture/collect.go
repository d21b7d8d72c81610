package torture

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// collect writes the final state of the outbox's database into the history. The database writes
// each observation as the history has it, but for its clock.
func (w *world) collect(ctx context.Context) {
	rowTimes := func(r *history.Row) []*time.Time { return append(times(&r.State), &r.RemovedAt) }
	each(ctx, w, w.truth, `SELECT jsonb_set(torture_row(e), '{state,lease}', jsonb_build_object('by', l.owner, 'until', l.until))
		FROM outbox_events AS e
		LEFT JOIN outbox_leases AS l ON l.seqs @> e.seq AND e.published_at IS NULL AND e.dead_at IS NULL`, rowTimes)
	each(ctx, w, w.truth, `SELECT body FROM torture_removed`, rowTimes)
	w.collectChanges(ctx)
	each(ctx, w, w.truth, `SELECT jsonb_build_object('txId', tx, 'eventId', event_id, 'line', line, 'data', data)
		FROM torture_ledger`, func(*history.LedgerRow) []*time.Time { return nil })
	each(ctx, w, w.truth, `SELECT jsonb_build_object('id', id, 'eventId', event_id, 'reason', error_reason, 'state', state,
		'attempts', attempt_count, 'failedAt', failed_at, 'error', error_message, 'payload', payload_json::text)
		FROM outbox_dlq`, func(l *history.Letter) []*time.Time { return []*time.Time{&l.FailedAt} })
	each(ctx, w, w.truth, `SELECT jsonb_build_object('id', id, 'at', at, 'actor', actor, 'action', action, 'note', note,
		'affected', affected, 'detail', detail)
		FROM outbox_audit`, func(a *history.Audit) []*time.Time { return []*time.Time{&a.At} })
}

// collectEffects writes what the consumers did. The clock of their database is ours.
func (w *world) collectEffects(ctx context.Context) {
	each(ctx, w, w.outcome, `SELECT jsonb_build_object('consumer', consumer, 'eventId', event_id, 'count', count(*))
		FROM (SELECT consumer, event_id FROM torture_effects
			UNION ALL SELECT '`+exampleConsumer+`', event_id FROM notifications) AS effects
		GROUP BY consumer, event_id`, func(*history.Effect) []*time.Time { return nil })
	each(ctx, w, w.outcome, `SELECT jsonb_build_object('at', at, 'consumer', consumer, 'eventId', event_id)
		FROM torture_runs ORDER BY at`, func(*history.Handled) []*time.Time { return nil })
}

// each records the observations that a query returns, after it has moved their times to our clock.
func each[T any](ctx context.Context, w *world, pool *pgxpool.Pool, query string, times func(*T) []*time.Time) {
	rows := rig.Must(pool.Query(ctx, query))
	defer rows.Close()
	for rows.Next() {
		var o T
		rig.Check(rows.Scan(&o))
		w.toOurClock(times(&o)...)
		w.rec.Add(o)
	}
	rig.Check(rows.Err())
}

// toOurClock moves times of the outbox's database.
func (w *world) toOurClock(times ...*time.Time) {
	for _, t := range times {
		if !t.IsZero() {
			*t = t.Add(-w.skew)
		}
	}
}

func times(s *history.State) []*time.Time {
	return []*time.Time{&s.Lease.Until, &s.Published, &s.Dead, &s.Next, &s.Passed}
}

// collectChanges makes one change of all that a transaction did to a row and to the lease that
// names it.
func (w *world) collectChanges(ctx context.Context) {
	rows := rig.Must(w.truth.Query(ctx, `SELECT seq, at, txid, event_id::text, app, deleted, before, coalesce(after, '{}'), lease
		FROM torture_changes ORDER BY seq`))
	defer rows.Close()
	var all []*history.Change
	last := map[string]*history.Change{}
	for rows.Next() {
		var c history.Change
		var before *history.State
		var after history.State
		var named *history.Lease
		rig.Check(rows.Scan(&c.Seq, &c.At, &c.TxID, &c.EventID, &c.By, &c.Deleted, &before, &after, &named))
		known := last[c.EventID]
		if known == nil || known.TxID != c.TxID {
			if known != nil {
				c.Before, c.After = known.After, known.After
			}
			known = &c
			all, last[c.EventID] = append(all, known), known
			if before != nil {
				before.Lease = known.Before.Lease
				known.Before = *before
			}
		}
		known.Seq, known.Deleted = c.Seq, c.Deleted
		if named == nil {
			after.Lease = known.After.Lease
			known.After = after
		} else {
			known.After.Lease = *named
		}
	}
	rig.Check(rows.Err())
	for _, c := range all {
		w.toOurClock(slices.Concat([]*time.Time{&c.At}, times(&c.Before), times(&c.After))...)
		w.rec.Add(*c)
	}
}

// record notes what reached the broker and what it answered.
func (w *world) record(at time.Time, a devstack.PublishAnswer) {
	now := time.Now()
	for i, m := range a.Messages {
		arrival := history.Arrival{
			At: at, Answered: now, Request: a.Number, EventID: m.GetAttributes()["event_id"], Topic: path.Base(a.Topic),
			Stored: i < len(a.Stored), ReplyLost: a.ReplyLost, OrderingKey: m.GetOrderingKey(),
		}
		if a.Err != nil {
			arrival.Code = status.Code(a.Err).String()
		}
		if arrival.Stored {
			arrival.MessageID, arrival.Data, arrival.Attributes = a.Stored[i], string(m.GetData()), m.GetAttributes()
			// The fake and a stream number messages under the lock that they store them under.
			id := a.Stored[i]
			arrival.Order, _ = strconv.ParseInt(id[strings.LastIndexAny(id, "m/")+1:], 10, 64)
			if w.cfg.Broker == "http" {
				arrival.MessageID = arrival.EventID // a service gives none
			}
		}
		w.rec.Add(arrival)
	}
}
