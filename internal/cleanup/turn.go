package cleanup

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// turnTimeout bounds giving the turn back: the server takes it back by itself when the connection
// ends.
const turnTimeout = 5 * time.Second

// A turn is the right to clean, held from the first batch to the last. The lock of a batch is free
// while the run rests.
//
// It belongs to a transaction, not to a session, so that it holds behind a transaction pooler too.
// The transaction only waits: it has neither a snapshot nor an id, and vacuum does not mind it.
type turn struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

// takeTurn returns ErrBusy when another cleanup has it.
func (c *Cleaner) takeTurn(ctx context.Context) (*turn, error) {
	// A connection beside the pool: a pool of one would have none left for the batches.
	conn, err := pgx.ConnectConfig(ctx, c.pool.Config().ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("take the turn to clean: %w", err)
	}
	t := &turn{conn: conn}
	if err := t.lock(ctx); err != nil {
		t.end(ctx)
		return nil, err
	}
	return t, nil
}

func (t *turn) lock(ctx context.Context) error {
	var err error
	if t.tx, err = t.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
		return fmt.Errorf("take the turn to clean: %w", err)
	}
	if _, err := t.tx.Exec(ctx, waitForever); err != nil {
		return fmt.Errorf("take the turn to clean: %w", err)
	}
	var got bool
	if err := t.tx.QueryRow(ctx, takeTurn).Scan(&got); err != nil {
		return fmt.Errorf("take the turn to clean: %w", err)
	}
	if !got {
		return busy(ctx, t.tx, turnKey)
	}
	return nil
}

// busy is ErrBusy with the name of who has the lock.
func busy(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, key string) error {
	var who string
	if err := db.QueryRow(ctx, whoHolds, key).Scan(&who); err != nil {
		return ErrBusy // it has just ended
	}
	return fmt.Errorf("%w: %s", ErrBusy, who)
}

// check returns an error when the turn is no longer ours: with its connection, the lock is lost as
// well.
func (t *turn) check(ctx context.Context) error {
	// The extended protocol would keep the statement's snapshot, which holds up vacuum, until the next
	// statement comes.
	if _, err := t.tx.Exec(ctx, `SELECT`, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("the lock that keeps other cleaners away is lost: %w", err)
	}
	return nil
}

func (t *turn) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turnTimeout)
	defer cancel()
	// Errors mean that the connection is gone, and the lock with it.
	if t.tx != nil {
		_ = t.tx.Rollback(ctx)
	}
	_ = t.conn.Close(ctx)
}

// Batches grow while they are quick and shrink before they are long: a transaction that deletes for
// a second holds up replicas and vacuum for a second.
const (
	firstBatch  = 1000
	leastBatch  = 100
	mostBatch   = 10_000
	quickBatch  = 40 * time.Millisecond
	longBatch   = 90 * time.Millisecond
	replicaWait = 500 * time.Millisecond
)

// note counts a batch and chooses the size of the next.
func (r *run) note(b Batch, limit int) {
	r.result.Batches++
	r.result.Longest = max(r.result.Longest, b.Took)
	switch {
	case b.Took > longBatch:
		r.size = max(r.size/2, leastBatch)
	case b.Took < quickBatch && b.Deleted == int64(limit):
		r.size = min(r.size*2, mostBatch)
	}
	if r.OnBatch != nil {
		r.OnBatch(b)
	}
}

// rest waits as long as was asked for, and then until the replicas have caught up.
func (r *run) rest(ctx context.Context) error {
	if err := wait.For(ctx, r.Pause); err != nil {
		return err
	}
	for r.MaxReplicaLag > 0 {
		var lag time.Duration
		if err := r.pool.QueryRow(ctx, replicaLag).Scan(&lag); err != nil {
			return err
		}
		if lag <= r.MaxReplicaLag {
			return nil
		}
		if err := wait.For(ctx, replicaWait); err != nil {
			return err
		}
	}
	return nil
}
