// Package adoption tells what a migration would find in a database, and what becomes of the events
// that wait there.
package adoption

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// Params describes what is planned.
type Params struct {
	Options migrate.Options
	// Catalogue judges what waits.
	Catalogue *registry.Registry
	// MaxAttempts is the publishers'.
	MaxAttempts int
}

// Adoption is what a migration would find and do, and what becomes of the events that wait.
type Adoption struct {
	migrate.Adoption
	Backlog registry.Backlog `json:"backlog"`
}

// Plan looks at a database before it is migrated. It changes nothing.
func Plan(ctx context.Context, pool *pgxpool.Pool, p Params) (Adoption, error) {
	found, err := migrate.Survey(ctx, pool, p.Options)
	if err != nil {
		return Adoption{}, err
	}
	plan := Adoption{Adoption: found, Backlog: registry.Backlog{Die: []registry.Refusal{}}}
	if found.Exists && found.Database == 0 && p.Catalogue.Source != registry.Builtin {
		var column *catalogue.ColumnError
		if err := p.Catalogue.Fits(ctx, pool); errors.As(err, &column) {
			plan.Blocked = append(plan.Blocked, migrate.Difference{
				Column: column.Column, Problem: "cannot hold the catalogue: " + column.Problem, Statement: column.Statement,
			})
		} else if err != nil {
			return Adoption{}, err
		}
	}
	if !found.Exists || len(plan.Blocked) > 0 {
		return plan, nil
	}
	const addsDeadAt = 2 // the version of the schema
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		plan.Backlog, err = p.Catalogue.Judge(ctx, tx, p.MaxAttempts, found.Database >= addsDeadAt)
		return err
	})
	if err != nil {
		return Adoption{}, fmt.Errorf("judge the events that wait: %w", err)
	}
	return plan, nil
}
