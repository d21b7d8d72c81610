package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/lab/history"
)

// collect writes the final state of the databases into the history.
func (w *world) collect(ctx context.Context) error {
	for _, part := range []func(context.Context) error{w.collectRows, w.collectChanges, w.collectLedger, w.collectLetters, w.collectAudits} {
		if err := part(ctx); err != nil {
			return fmt.Errorf("collect the final state: %w", err)
		}
	}
	return nil
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

func (w *world) collectRows(ctx context.Context) error {
	if err := w.each(ctx, `SELECT `+rowColumns+`, NULL::timestamptz FROM outbox_events`, w.addRow); err != nil {
		return err
	}
	return w.each(ctx, `SELECT `+rowColumns+`, removed_at FROM torture_removed`, w.addRow)
}

func (w *world) addRow(rows pgx.Rows) error {
	var r history.Row
	var created time.Time
	var until, published, dead, next, passed, removed *time.Time
	err := rows.Scan(&r.EventID, &r.Seq, &r.Type, &r.AggregateType, &r.AggregateID, &r.Payload, &r.Headers, &created,
		&r.State.Lease.By, &until, &r.State.Attempts, &r.State.LastError, &published, &dead, &next, &r.State.MessageID, &r.OrderingKey, &passed,
		&r.Namespace, &r.TenantID, &r.DedupeKey, &removed)
	if err != nil {
		return err
	}
	r.CreatedAt = created.UTC().Format(time.RFC3339Nano)
	r.State.Lease.Until, r.State.Published, r.State.Dead, r.State.Next = w.here(until), w.here(published), w.here(dead), w.here(next)
	r.State.Passed, r.RemovedAt = w.here(passed), w.here(removed)
	w.rec.Add(r)
	return nil
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

func (w *world) state(text []byte) (history.State, error) {
	if text == nil {
		return history.State{}, nil
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return history.State{}, err
	}
	return history.State{
		Lease:    history.Lease{By: orEmpty(s.By), Until: w.here(s.Until)},
		Attempts: s.Attempts, LastError: orEmpty(s.Error), Published: w.here(s.Published), Dead: w.here(s.Dead), Next: w.here(s.Next),
		MessageID: orEmpty(s.Message), Passed: w.here(s.Passed),
	}, nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (w *world) collectChanges(ctx context.Context) error {
	return w.each(ctx, `SELECT seq, at, txid, event_id::text, app, deleted, before, after FROM torture_changes ORDER BY seq`, func(rows pgx.Rows) error {
		var c history.Change
		var at time.Time
		var before, after []byte
		err := rows.Scan(&c.Seq, &at, &c.TxID, &c.EventID, &c.By, &c.Deleted, &before, &after)
		if err != nil {
			return err
		}
		c.At = w.here(&at)
		if c.Before, err = w.state(before); err != nil {
			return err
		}
		if c.After, err = w.state(after); err != nil {
			return err
		}
		w.rec.Add(c)
		return nil
	})
}

func (w *world) collectLedger(ctx context.Context) error {
	return w.each(ctx, `SELECT tx, event_id::text, coalesce(line, ''), data FROM torture_ledger`, func(rows pgx.Rows) error {
		var l history.LedgerRow
		if err := rows.Scan(&l.TxID, &l.EventID, &l.Line, &l.Data); err != nil {
			return err
		}
		w.rec.Add(l)
		return nil
	})
}

func (w *world) collectLetters(ctx context.Context) error {
	return w.each(ctx, `SELECT id::text, event_id::text, error_reason::text, state, attempt_count, failed_at, payload_json::text FROM outbox_dlq`, func(rows pgx.Rows) error {
		var l history.Letter
		var at time.Time
		if err := rows.Scan(&l.ID, &l.EventID, &l.Reason, &l.State, &l.Attempts, &at, &l.Payload); err != nil {
			return err
		}
		l.FailedAt = w.here(&at)
		w.rec.Add(l)
		return nil
	})
}

func (w *world) collectAudits(ctx context.Context) error {
	return w.each(ctx, `SELECT id, at, actor, action, coalesce(note, ''), affected, detail FROM outbox_audit`, func(rows pgx.Rows) error {
		var a history.Audit
		var at time.Time
		if err := rows.Scan(&a.ID, &at, &a.Actor, &a.Action, &a.Note, &a.Affected, &a.Detail); err != nil {
			return err
		}
		a.At = w.here(&at)
		w.rec.Add(a)
		return nil
	})
}

func (w *world) each(ctx context.Context, query string, add func(pgx.Rows) error) error {
	rows, err := w.truth.Query(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := add(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// collectEffects writes what the consumers did.
func (w *world) collectEffects(ctx context.Context) error {
	rows, err := w.outcome.Query(ctx, `
		SELECT consumer, event_id::text, count(*) FROM torture_effects GROUP BY 1, 2
		UNION ALL SELECT $1, event_id::text, count(*) FROM notifications GROUP BY 2`, exampleConsumer)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var e history.Effect
		if err := rows.Scan(&e.Consumer, &e.EventID, &e.Count); err != nil {
			return err
		}
		w.rec.Add(e)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	runs, err := w.outcome.Query(ctx, `SELECT at, consumer, event_id::text FROM torture_runs ORDER BY at`)
	if err != nil {
		return err
	}
	defer runs.Close()
	for runs.Next() {
		var h history.Handled
		if err := runs.Scan(&h.At, &h.Consumer, &h.EventID); err != nil {
			return err
		}
		w.rec.Add(h)
	}
	return runs.Err()
}
