package torture

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// collect writes the final state of the outbox's database into the history.
func (w *world) collect(ctx context.Context) {
	w.each(ctx, w.truth, `SELECT `+rowColumns+`, NULL::timestamptz FROM outbox_events`, w.addRow)
	w.each(ctx, w.truth, `SELECT `+rowColumns+`, removed_at FROM torture_removed`, w.addRow)
	w.each(ctx, w.truth, `SELECT seq, at, txid, event_id::text, app, deleted, before, after FROM torture_changes ORDER BY seq`, w.addChange)
	w.each(ctx, w.truth, `SELECT tx, event_id::text, coalesce(line, ''), data FROM torture_ledger`, func(rows pgx.Rows) any {
		var l history.LedgerRow
		rig.Check(rows.Scan(&l.TxID, &l.EventID, &l.Line, &l.Data))
		return l
	})
	w.each(ctx, w.truth, `SELECT id::text, event_id::text, error_reason::text, state, attempt_count, failed_at, payload_json::text FROM outbox_dlq`, func(rows pgx.Rows) any {
		var l history.Letter
		var at time.Time
		rig.Check(rows.Scan(&l.ID, &l.EventID, &l.Reason, &l.State, &l.Attempts, &at, &l.Payload))
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
func (w *world) each(ctx context.Context, pool *pgxpool.Pool, query string, record func(pgx.Rows) any) {
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

const rowColumns = `id::text, seq, event_type::text, aggregate_type::text, aggregate_id::text, payload_json::text, headers,
	created_at, coalesce(locked_by::text, ''), locked_until, attempt_count, coalesce(last_error, ''), published_at, dead_at,
	next_attempt_at, coalesce(broker_message_id, ''), coalesce(ordering_key, ''), passed_at,
	namespace, coalesce(tenant_id::text, ''), coalesce(dedupe_key, '')`

func (w *world) addRow(rows pgx.Rows) any {
	var r history.Row
	var created time.Time
	var until, published, dead, next, passed, removed *time.Time
	rig.Check(rows.Scan(&r.EventID, &r.Seq, &r.Type, &r.AggregateType, &r.AggregateID, &r.Payload, &r.Headers, &created,
		&r.State.Lease.By, &until, &r.State.Attempts, &r.State.LastError, &published, &dead, &next, &r.State.MessageID, &r.OrderingKey, &passed,
		&r.Namespace, &r.TenantID, &r.DedupeKey, &removed))
	r.CreatedAt = created.UTC().Format(time.RFC3339Nano)
	r.State.Lease.Until, r.State.Published, r.State.Dead, r.State.Next = w.here(until), w.here(published), w.here(dead), w.here(next)
	r.State.Passed, r.RemovedAt = w.here(passed), w.here(removed)
	return r
}

// state is a row's state as the trigger recorded it.
type state struct {
	By        *string    `json:"by"`
	Until     *time.Time `json:"until"`
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
		Lease:    history.Lease{By: orEmpty(s.By), Until: w.here(s.Until)},
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

func (w *world) addChange(rows pgx.Rows) any {
	var c history.Change
	var at time.Time
	var before, after []byte
	rig.Check(rows.Scan(&c.Seq, &at, &c.TxID, &c.EventID, &c.By, &c.Deleted, &before, &after))
	c.At, c.Before, c.After = w.here(&at), w.state(before), w.state(after)
	return c
}
