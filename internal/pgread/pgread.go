package pgread

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultTimeout is how long one statement may take: longer than any page or report of a healthy
// outbox.
const DefaultTimeout = 5 * time.Second

// Limits is how long a read may take.
type Limits struct {
	// Statement bounds each statement; 0 does not.
	Statement time.Duration
	// Lock bounds the wait for each lock. It is less than Statement, so that the server tells which of
	// the two was reached.
	Lock time.Duration
}

// Within returns the limits of statements that may take d.
func Within(d time.Duration) Limits { return Limits{Statement: d, Lock: d * 4 / 5} }

// DB reads from a pool within limits. Query, QueryRow and transactions that only read are bounded;
// transactions that write are the pool's own.
type DB struct {
	Pool *pgxpool.Pool
	Limits
	// Setting is what raises Statement, for the hint.
	Setting string
}

// With returns the same database with other limits.
func (d *DB) With(l Limits) *DB {
	other := *d
	other.Limits = l
	return &other
}

// Query reads rows. The transaction around it ends when they are closed.
func (d *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	t, err := d.begin(ctx, pgx.TxOptions{})
	if err != nil {
		return nil, err
	}
	found, err := t.Tx.Query(ctx, sql, args...)
	r := &rows{Rows: found, end: func(err error) error { return t.end(ctx, err) }}
	if err != nil {
		r.Close()
		return r, r.Err()
	}
	return r, nil
}

// QueryRow reads one row.
func (d *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	r, err := d.Query(ctx, sql, args...)
	return row{r, err}
}

// BeginTx begins a transaction: a bounded one if it only reads.
func (d *DB) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	if opts.AccessMode != pgx.ReadOnly {
		return d.Pool.BeginTx(ctx, opts)
	}
	t, err := d.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// begin sets the limits with the statement that begins the transaction, for a round trip less.
// Compiling a statement that walks over a backlog takes a second, walking over it a tenth of that.
func (d *DB) begin(ctx context.Context, opts pgx.TxOptions) (*tx, error) {
	begin := fmt.Sprintf("BEGIN %s; SET LOCAL jit = off; SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d",
		modes(opts), d.Statement.Milliseconds(), d.Lock.Milliseconds())
	opened, err := d.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return nil, fmt.Errorf("begin to read: %w", err)
	}
	return &tx{Tx: opened, db: d}, nil
}

func modes(opts pgx.TxOptions) string {
	var words []string
	if opts.IsoLevel != "" {
		words = append(words, "ISOLATION LEVEL "+string(opts.IsoLevel))
	}
	if opts.AccessMode != "" {
		words = append(words, string(opts.AccessMode))
	}
	return strings.Join(words, " ")
}

// tx is a transaction whose errors say who is in the way. What begins inside it returns the
// server's own errors: it may go on after one.
type tx struct {
	pgx.Tx
	db *DB
}

// end ends the transaction before it asks who is in the way: the pool may have no other connection.
func (t *tx) end(ctx context.Context, err error) error {
	if err == nil {
		return t.Commit(ctx)
	}
	_ = t.Rollback(ctx) // the error counts
	return t.db.Explain(ctx, err)
}

// late ends the transaction of a statement that was given up; after other errors that is left to
// who began it.
func (t *tx) late(ctx context.Context, err error) error {
	if gaveUp(err) {
		return t.end(ctx, err)
	}
	return err
}

func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	found, err := t.Tx.Query(ctx, sql, args...)
	return &rows{Rows: found, end: func(err error) error { return t.late(ctx, err) }}, t.late(ctx, err)
}

func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	r, err := t.Query(ctx, sql, args...)
	return row{r, err}
}

func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := t.Tx.Exec(ctx, sql, args...)
	return tag, t.late(ctx, err)
}

// rows tells end once how reading ended.
type rows struct {
	pgx.Rows
	end  func(error) error
	done bool
	err  error
}

func (r *rows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.Close()
	}
	return more
}

func (r *rows) Close() {
	r.Rows.Close()
	if !r.done {
		r.done = true
		r.err = r.end(r.Rows.Err())
	}
}

func (r *rows) Err() error {
	if r.done {
		return r.err
	}
	return r.Rows.Err()
}

// row is the first of its rows.
type row struct {
	rows pgx.Rows
	err  error
}

func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
