package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// StepStatus is a migration and whether the database has it.
type StepStatus struct {
	Step
	State     string     `json:"state"`
	AppliedAt *time.Time `json:"appliedAt"`
}

// The states of a migration. What is unknown is recorded in the database, but not part of this
// binary.
const (
	StepApplied = "applied"
	StepPending = "pending"
	StepUnknown = "unknown"
)

// Versions compares a database with this binary.
type Versions struct {
	Database int64 `json:"database"` // highest version applied, 0 when none
	Binary   int64 `json:"binary"`   // highest version this binary has
	Pending  int   `json:"pending"`  // migrations of this binary the database lacks
}

// Planned is a migration that a run would execute, with its SQL.
type Planned struct {
	Step
	SQL string
}

// Status lists every migration known to the binary or to the database, by version. It only reads.
func Status(ctx context.Context, db querier, opts Options) ([]StepStatus, error) {
	opts = opts.withDefaults()
	known, err := steps(opts.Migrations)
	if err != nil {
		return nil, err
	}
	applied, err := readApplied(ctx, db)
	if err != nil {
		return nil, err
	}
	return merge(known, applied), nil
}

// Version compares the database's version with the binary's. It only reads.
func Version(ctx context.Context, db querier, opts Options) (Versions, error) {
	list, err := Status(ctx, db, opts)
	if err != nil {
		return Versions{}, err
	}
	return versions(list), nil
}

// Plan returns which migrations Up (or Down, when down is set) would run, in
// order, and their SQL. It only reads.
func Plan(ctx context.Context, pool *pgxpool.Pool, opts Options, down bool) ([]Planned, error) {
	opts = opts.withDefaults()
	list, err := Status(ctx, pool, opts)
	if err != nil {
		return nil, err
	}
	todo, err := choose(list, opts, down)
	if err != nil {
		return nil, err
	}
	out := make([]Planned, 0, len(todo))
	for _, s := range todo {
		sql, err := section(opts.Migrations, s, !down)
		if err != nil {
			return nil, err
		}
		out = append(out, Planned{Step: s, SQL: sql})
	}
	return out, nil
}

func versions(list []StepStatus) Versions {
	var v Versions
	for _, s := range list {
		if s.State == StepPending {
			v.Pending++
		} else {
			v.Database = max(v.Database, s.Version)
		}
		if s.State != StepUnknown {
			v.Binary = max(v.Binary, s.Version)
		}
	}
	return v
}

// querier is what reading the version table needs: a pool or one connection.
type querier interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// readApplied reads the version table without goose, which would create it.
// The transaction is read-only, so that not even a mistake here can write.
func readApplied(ctx context.Context, db querier) (map[int64]time.Time, error) {
	applied := map[int64]time.Time{}
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL",
			Table).Scan(&exists); err != nil || !exists {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT version_id, max(tstamp) AT TIME ZONE 'UTC' FROM "+Table+" WHERE is_applied AND version_id > 0 GROUP BY version_id")
		if err != nil {
			return err
		}
		var version int64
		var at time.Time
		_, err = pgx.ForEachRow(rows, []any{&version, &at}, func() error {
			applied[version] = at
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	return applied, nil
}
