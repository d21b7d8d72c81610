package torture

import (
	"context"
	"encoding/json"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// collect writes the final state of the outbox's database into the history.
func (w *world) collect(ctx context.Context) {
	w.each(ctx, w.truth, `SELECT `+rowColumns+`, l.owner::text, l.until, NULL::timestamptz FROM outbox_events AS e
		LEFT JOIN outbox_leases AS l ON l.seqs @> e.seq AND e.published_at IS NULL AND e.dead_at IS NULL`, w.addRow)
	w.each(ctx, w.truth, `SELECT `+rowColumns+`, NULL::text, NULL::timestamptz, e.removed_at FROM torture_removed AS e`, w.addRow)
	w.collectChanges(ctx)
	w.each(ctx, w.truth, `SELECT tx, event_id::text, coalesce(line, ''), data FROM torture_ledger`, func(rows pgx.Rows) any {
		var l history.LedgerRow
		rig.Check(rows.Scan(&l.TxID, &l.EventID, &l.Line, &l.Data))
		return l
	})
	w.each(ctx, w.truth, `SELECT id::text, event_id::text, error_reason::text, state, attempt_count, failed_at, error_message, payload_json::text FROM outbox_dlq`, func(rows pgx.Rows) any {
		var l history.Letter
		var at time.Time
		rig.Check(rows.Scan(&l.ID, &l.EventID, &l.Reason, &l.State, &l.Attempts, &at, &l.Error, &l.Payload))
		l.FailedAt = w.here(&at)
		return l
	})
	w.each(ctx, w.truth, `SELECT id, at, actor, action, coalesce(note, ''), affected, detail FROM outbox_audit`, func(rows pgx.Rows) any {
		var a history.Audit
		var at time.Time
		rig.Check(rows.Scan(&a.ID, &at, &a.Actor, &a.Action, &a.Note, &a.Affected, &a.Detail))
		a.At = w.here(&at)
		return a
	})
}

// collectEffects writes what the consumers did.
func (w *world) collectEffects(ctx context.Context) {
	w.each(ctx, w.outcome, `SELECT consumer, event_id::text, count(*) FROM torture_effects GROUP BY 1, 2
		UNION ALL SELECT '`+exampleConsumer+`', event_id::text, count(*) FROM notifications GROUP BY 2`, func(rows pgx.Rows) any {
		var e history.Effect
		rig.Check(rows.Scan(&e.Consumer, &e.EventID, &e.Count))
		return e
	})
	w.each(ctx, w.outcome, `SELECT at, consumer, event_id::text FROM torture_runs ORDER BY at`, func(rows pgx.Rows) any {
		var h history.Handled
		rig.Check(rows.Scan(&h.At, &h.Consumer, &h.EventID))
		return h
	})
}

// each records what record makes of each row.
func (w *world) each(ctx context.Context, pool *pgxpool.Pool, query string,
	record func(pgx.Rows) any) {
	rows := rig.Must(pool.Query(ctx, query))
	defer rows.Close()
	for rows.Next() {
		w.rec.Add(record(rows))
	}
	rig.Check(rows.Err())
}

// here moves a time of the database to our clock.
func (w *world) here(t *time.Time) time.Time {
	if t == nil || t.IsZero() {
		return time.Time{}
	}
	return t.Add(-w.skew)
}

const rowColumns = `e.id::text, e.seq, e.event_type::text, e.aggregate_type::text, e.aggregate_id::text, e.payload_json::text, e.headers,
	e.created_at, e.attempt_count, coalesce(e.last_error, ''), e.published_at, e.dead_at,
	e.next_attempt_at, coalesce(e.broker_message_id, ''), coalesce(e.ordering_key, ''), e.passed_at,
	e.namespace, coalesce(e.tenant_id::text, ''), coalesce(e.dedupe_key, '')`

func (w *world) addRow(rows pgx.Rows) any {
	var r history.Row
	var created time.Time
	var holder *string
	var until, published, dead, next, passed, removed *time.Time
	rig.Check(rows.Scan(&r.EventID, &r.Seq, &r.Type, &r.AggregateType, &r.AggregateID, &r.Payload, &r.Headers, &created,
		&r.State.Attempts, &r.State.LastError, &published, &dead, &next, &r.State.MessageID, &r.OrderingKey, &passed,
		&r.Namespace, &r.TenantID, &r.DedupeKey, &holder, &until, &removed))
	r.State.Lease.By = orEmpty(holder)
	r.CreatedAt = created.UTC().Format(time.RFC3339Nano)
	r.State.Lease.Until, r.State.Published, r.State.Dead, r.State.Next = w.here(until), w.here(published), w.here(dead), w.here(next)
	r.State.Passed, r.RemovedAt = w.here(passed), w.here(removed)
	return r
}

// state is a row's state as the trigger recorded it.
type state struct {
	Attempts  int        `json:"attempts"`
	Error     *string    `json:"error"`
	Published *time.Time `json:"published"`
	Dead      *time.Time `json:"dead"`
	Next      *time.Time `json:"next"`
	Message   *string    `json:"message"`
	Passed    *time.Time `json:"passed"`
}

func (w *world) state(text []byte) history.State {
	if text == nil {
		return history.State{}
	}
	var s state
	rig.Check(json.Unmarshal(text, &s))
	return history.State{
		Attempts: s.Attempts, LastError: orEmpty(s.Error), Published: w.here(s.Published), Dead: w.here(s.Dead), Next: w.here(s.Next),
		MessageID: orEmpty(s.Message), Passed: w.here(s.Passed),
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// leaseMark is what a lease's trigger recorded; the zero value is nobody's.
type leaseMark struct {
	By    string     `json:"by"`
	Until *time.Time `json:"until"`
}

// collectChanges makes one change of all that a transaction did to a row and to the lease that
// names it.
func (w *world) collectChanges(ctx context.Context) {
	rows := rig.Must(w.truth.Query(ctx,
		`SELECT seq, at, txid, event_id::text, app, deleted, before, after, lease FROM torture_changes ORDER BY seq`))
	defer rows.Close()
	var all []*history.Change
	last := map[string]*history.Change{}
	for rows.Next() {
		var c history.Change
		var at time.Time
		var before, after, named []byte
		rig.Check(rows.Scan(&c.Seq, &at, &c.TxID, &c.EventID, &c.By, &c.Deleted, &before, &after, &named))
		c.At = w.here(&at)
		known := last[c.EventID]
		if known == nil || known.TxID != c.TxID {
			if known != nil {
				c.Before, c.After = known.After, known.After
			}
			known = &c
			all, last[c.EventID] = append(all, known), known
			if before != nil {
				held := known.Before.Lease
				known.Before = w.state(before)
				known.Before.Lease = held
			}
		}
		known.Seq, known.Deleted = c.Seq, c.Deleted
		switch {
		case named != nil:
			var l leaseMark
			rig.Check(json.Unmarshal(named, &l))
			known.After.Lease = history.Lease{By: l.By, Until: w.here(l.Until)}
		default:
			held := known.After.Lease
			known.After = w.state(after)
			known.After.Lease = held
		}
	}
	rig.Check(rows.Err())
	for _, c := range all {
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
