package ui

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// reader reads the database, each time in one transaction that cannot write, under the role of a
// viewer where that has rights.
type reader struct {
	pool    *pgxpool.Pool
	role    string
	timeout time.Duration
	keeper  *idem.Keeper
	// types is the catalogue; with learns it is the database's, read with each snapshot.
	types  atomic.Pointer[registry.Registry]
	learns bool
	// own: what was read last was read with the login's own rights.
	own atomic.Bool
}

func newReader(cfg Config) *reader {
	r := &reader{pool: cfg.ReadPool, role: cfg.ReadRole, timeout: cfg.QueryTimeout, learns: cfg.Catalogue == nil}
	known := registry.New()
	if cfg.Catalogue != nil {
		known.Catalogue = cfg.Catalogue
	}
	r.types.Store(known)
	r.own.Store(r.role == OwnRights)
	return r
}

// beginReading sets the role for the transaction only: a pooler would hand settings of a session to
// another client. Roles belong to the whole server, their rights to one database: where the default
// role has none, as in the second database of a server, the login's own remain. A role that was
// chosen is taken as it is.
const beginReading = `
SELECT set_config('role', CASE WHEN own THEN current_setting('role') ELSE $1::text END, true), own, clock_timestamp()
  FROM (SELECT $1::text = '` + OwnRights + `' OR $1::text = '` + DefaultReadRole + `' AND NOT coalesce((
               SELECT has_any_column_privilege(r.oid, to_regclass('outbox_events')::oid, 'SELECT') FROM pg_catalog.pg_roles AS r WHERE r.rolname = $1::text), false)) AS rights (own)`

// learn reads the event types that the database recorded, in a part of o's transaction.
func (r *reader) learn(ctx context.Context, o *dlq.Outbox) error {
	if !r.learns {
		return nil
	}
	tx, err := o.DB.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	known, err := registry.Recorded(ctx, tx)
	// A schema without the tables is no error to the registry, but it is to the transaction: only
	// going back mends that.
	if err = errors.Join(err, tx.Rollback(ctx)); err != nil {
		return err
	}
	r.types.Store(known)
	o.Registry = known
	return nil
}

// doOn calls use with an Outbox that reads from one snapshot of a database, and with its clock.
func (r *reader) doOn(ctx context.Context, pool *pgxpool.Pool, use func(*dlq.Outbox, time.Time) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	db := &pgread.DB{Pool: pool, Limits: pgread.Within(r.timeout), Setting: "ui.query_timeout"}
	err := pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) error {
		var role string
		var own bool
		var now time.Time
		err := tx.QueryRow(ctx, beginReading, pgx.QueryExecModeSimpleProtocol, r.role).Scan(&role, &own, &now)
		if err != nil {
			return fmt.Errorf("begin to read: %w", err)
		}
		r.own.Store(own)
		o := dlq.New(outbox.Inside{Tx: tx}, r.types.Load())
		o.Keeper = r.keeper
		return use(o, now)
	})
	return db.Explain(ctx, err) // a part of the transaction does not explain itself
}

// part calls use with an Outbox that reads in a part of o's transaction, which goes on after an
// error.
func part(ctx context.Context, o *dlq.Outbox, use func(*dlq.Outbox) error) error {
	return pgx.BeginTxFunc(ctx, o.DB, pgx.TxOptions{}, func(tx pgx.Tx) error {
		inner := *o
		inner.DB = outbox.Inside{Tx: tx}
		return use(&inner)
	})
}
