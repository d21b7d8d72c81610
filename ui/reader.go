package ui

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// reader reads the database, each time in one transaction that cannot write, under the role of a viewer.
type reader struct {
	pool    *pgxpool.Pool
	role    string
	timeout time.Duration
	keeper  *idem.Keeper
	// types is the catalogue; with learns it is the database's, read with each snapshot.
	types  atomic.Pointer[registry.Registry]
	learns bool
}

func newReader(cfg Config) *reader {
	r := &reader{pool: cfg.ReadPool, role: cfg.ReadRole, timeout: cfg.QueryTimeout, learns: cfg.Catalogue == nil}
	known := registry.New()
	if cfg.Catalogue != nil {
		known.Catalogue = cfg.Catalogue
	}
	r.types.Store(known)
	return r
}

// learn reads the event types that the database recorded, in a part of o's transaction, and gives them to o.
func (r *reader) learn(ctx context.Context, o *operate.Outbox) error {
	if !r.learns {
		return nil
	}
	tx, err := o.DB.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return operate.StoreError(err)
	}
	known, err := registry.Recorded(ctx, tx)
	// A schema without the tables is no error to the registry, but it is to the transaction: only going back mends that.
	if err = errors.Join(err, tx.Rollback(ctx)); err != nil {
		return operate.StoreError(err)
	}
	r.types.Store(known)
	o.Registry = known
	return nil
}

// do calls use with an Outbox that reads from one snapshot of the database. Role and limit are set for the transaction
// only: a pooler would hand settings of a session to another client.
func (r *reader) do(ctx context.Context, use func(*operate.Outbox) error) error {
	return r.doOn(ctx, r.pool, use)
}

// doOn is do with another pool.
func (r *reader) doOn(ctx context.Context, pool *pgxpool.Pool, use func(*operate.Outbox) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, pool, opts, func(tx pgx.Tx) error {
		setup := fmt.Sprintf("SET LOCAL statement_timeout = %d", r.timeout.Milliseconds())
		if r.role != OwnRights {
			setup += "; SET LOCAL ROLE " + pgx.Identifier{r.role}.Sanitize()
		}
		if _, err := tx.Exec(ctx, setup, pgx.QueryExecModeSimpleProtocol); err != nil {
			return operate.StoreError(fmt.Errorf("begin to read: %w", err))
		}
		return use(&operate.Outbox{DB: inside{tx}, Registry: r.types.Load(), Keeper: r.keeper})
	})
}

// part calls use with an Outbox that reads in a part of o's transaction, which goes on after an error.
func part(ctx context.Context, o *operate.Outbox, use func(*operate.Outbox) error) error {
	return pgx.BeginTxFunc(ctx, o.DB, pgx.TxOptions{}, func(tx pgx.Tx) error {
		inner := *o
		inner.DB = inside{tx}
		return use(&inner)
	})
}

// inside is a transaction as a database: what begins inside it is a part of it.
type inside struct{ pgx.Tx }

// BeginTx begins a part of the transaction, which has its snapshot already.
func (t inside) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) { return t.Begin(ctx) }
