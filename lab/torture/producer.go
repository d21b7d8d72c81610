package torture

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// The ways of a producer's transaction.
const (
	howPlain     = "plain"
	howLate      = "late"
	howRollback  = "rollback"
	howSavepoint = "savepoint"
	howKilled    = "killed"
	howCLI       = "cli"
)

// quota is how many events the producers owe together by now. What a fault held up, or rolled back,
// is made up for.
type quota struct {
	since time.Time
	rate  int
	done  atomic.Int64
}

// wait returns when the next transaction is due, and reports whether ctx let it.
func (q *quota) wait(ctx context.Context) bool {
	for float64(q.done.Load()) >= time.Since(q.since).Seconds()*float64(q.rate) {
		if !rig.Pause(ctx, 5*time.Millisecond) {
			return false
		}
	}
	return ctx.Err() == nil
}

// producer writes business rows with events beside them, until told to stop.
type producer struct {
	name    string
	url     string // through the cutter
	quota   *quota
	rec     *history.Recorder
	source  *source
	catalog *registry.Registry
	count   int
}

// run works until ctx ends. The last transaction is brought to its end: what became of it must be
// known.
func (p *producer) run(ctx context.Context) {
	var conn *pgx.Conn
	for ctx.Err() == nil {
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		if conn == nil || conn.IsClosed() {
			conn, _ = pgx.Connect(work, p.url) // the database may be away
		}
		if conn == nil {
			rig.Pause(ctx, 100*time.Millisecond)
		} else {
			p.transaction(ctx, work, conn)
		}
		cancel()
	}
	if conn != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

func (p *producer) how() string {
	switch n := p.source.random.IntN(100); {
	case n < 20:
		return howRollback
	case n < 28:
		return howSavepoint
	case n < 33:
		return howLate
	case n < 37:
		return howKilled
	default:
		return howPlain
	}
}

// transaction writes one, and what became of it.
func (p *producer) transaction(ctx, work context.Context, conn *pgx.Conn) {
	p.count++
	t := history.Transaction{ID: fmt.Sprintf("%s/%d", p.name, p.count), How: p.how()}
	drafts := make([]draft, 1+p.source.random.IntN(3))
	for i := range drafts {
		drafts[i] = p.source.next()
		t.Events = append(t.Events, drafts[i].intent())
	}
	if t.How == howPlain || t.How == howLate || t.How == howSavepoint {
		if !p.quota.wait(ctx) {
			return // told to stop
		}
	}
	t.At = time.Now()
	outcome, retracted := p.perform(ctx, work, conn, &t, drafts)
	t.Outcome, t.Ended = outcome, time.Now()
	if outcome == history.Committed {
		p.quota.done.Add(int64(len(drafts)))
	}
	if retracted != nil {
		t.Events = append(t.Events, *retracted)
	}
	p.rec.Add(t)
}

func (p *producer) perform(ctx, work context.Context, conn *pgx.Conn, t *history.Transaction,
	drafts []draft) (history.Outcome, *history.Intent) {
	tx, err := conn.Begin(work)
	if err != nil {
		return history.RolledBack, nil
	}
	defer func() { _ = tx.Rollback(work) }() // after a commit, or on a dead connection, this does nothing
	aggregate := p.source.random.IntN(aggregates)
	if p.source.random.IntN(2) == 0 {
		aggregate = p.source.random.IntN(orderedAggregates)
	}
	locks := p.source.random.IntN(20) > 0
	if locks {
		if _, err := tx.Exec(work, `UPDATE torture_aggregates SET version = version + 1 WHERE id = $1`,
			aggregate); err != nil {
			return history.RolledBack, nil
		}
	}
	for _, d := range drafts {
		p.source.orderBy(&d, key(aggregate, locks))
		if err := p.write(work, tx, t.ID, d); err != nil {
			return history.RolledBack, nil
		}
	}
	var retracted *history.Intent
	if t.How == howSavepoint {
		if retracted, err = p.retract(work, tx, t.ID); err != nil {
			return history.RolledBack, retracted
		}
	}
	switch t.How {
	case howRollback:
		return history.RolledBack, nil
	case howKilled:
		_ = conn.PgConn().Conn().Close() // as if the process had died
		return history.RolledBack, nil
	case howLate:
		// Locked aggregates wait with it, as they do in life.
		rig.Pause(ctx, time.Duration(1+p.source.random.IntN(4))*time.Second)
	}
	return committed(tx.Commit(work)), retracted
}

// committed reads what a commit's error says about it. Only an answer of the server proves that it
// did not happen.
func committed(err error) history.Outcome {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return history.Committed
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return history.RolledBack
	case errors.As(err, &refused) && refused.Code != "57P01" && refused.Code != "57P02":
		return history.RolledBack
	default:
		return history.Unknown
	}
}

// write emits an event and writes its ledger row.
func (p *producer) write(ctx context.Context, tx pgx.Tx, id string, d draft) error {
	var err error
	if d.byHand() {
		err = p.insert(ctx, tx, d)
	} else {
		_, err = emit.Emit(ctx, tx, d.event)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO torture_ledger (tx, event_id, data) VALUES ($1, $2, $3)`, id, d.event.ID, d.data())
	}
	return err
}

// retract emits an event and takes it back.
func (p *producer) retract(ctx context.Context, tx pgx.Tx, id string) (*history.Intent, error) {
	d := p.source.next()
	intent := d.intent()
	intent.Expect = history.Retract
	inner, err := tx.Begin(ctx)
	if err == nil {
		err = p.write(ctx, inner, id, d)
	}
	if err == nil {
		err = inner.Rollback(ctx)
	}
	return &intent, err
}

// insert is the plain INSERT that a service may write in any language, rules and all ignored.
func (p *producer) insert(ctx context.Context, tx pgx.Tx, d draft) error {
	aggregate, _, _ := p.catalog.Resolve(d.event.Type)
	envelope := fmt.Sprintf(`{"version": 1, "eventId": %q, "occurredAt": "2026-01-02T03:04:05Z", "data": %s}`, d.event.ID, d.data())
	_, err := tx.Exec(ctx, `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, headers, ordering_key)
		VALUES ($1, $2::text::event_type_enum, $3::text::aggregate_type_enum, $4, $5::text::jsonb, $6, 'default/' || nullif($7::text, ''))`,
		d.event.ID, d.event.Type, aggregate, d.event.AggregateID, envelope, d.event.Headers, d.event.OrderingKey)
	return err
}
