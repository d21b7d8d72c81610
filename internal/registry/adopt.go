package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// maxJudged bounds how many waiting rows a plan looks at, the oldest ones.
const maxJudged = 100_000

// AdoptionParams describes what is planned.
type AdoptionParams struct {
	Options migrate.Options
	// Catalogue judges what waits.
	Catalogue *Registry
	// MaxAttempts is the publishers'.
	MaxAttempts int
}

// Adoption is what a migration would find and do, and what becomes of the events that wait.
type Adoption struct {
	migrate.Adoption
	Backlog Backlog `json:"backlog"`
}

// Backlog is what a publisher would do with the rows that wait.
type Backlog struct {
	// Judged is how many of them were looked at, the oldest ones.
	Judged int64 `json:"judged"`
	// Publish would be sent; OtherEventID of them have an envelope with another id than the row's.
	Publish      int64 `json:"publish"`
	OtherEventID int64 `json:"otherEventId"`
	// AttemptsSpent die at their first claim, keeping their last error: they have used up their attempts.
	AttemptsSpent int64 `json:"attemptsSpent"`
	// Die would die for what they are.
	Die []Refusal `json:"die"`
}

// PlanAdoption looks at a database before it is migrated. It changes nothing.
func PlanAdoption(ctx context.Context, pool *pgxpool.Pool, p AdoptionParams) (Adoption, error) {
	found, err := migrate.Survey(ctx, pool, p.Options)
	if err != nil {
		return Adoption{}, err
	}
	plan := Adoption{Adoption: found, Backlog: Backlog{Die: []Refusal{}}}
	if found.Exists && found.Database == 0 && p.Catalogue.Source != Builtin {
		var column *catalogue.ColumnError
		if err := p.Catalogue.Fits(ctx, pool); errors.As(err, &column) {
			plan.Blocked = append(plan.Blocked, migrate.Difference{Column: column.Column, Problem: "cannot hold the catalogue: " + column.Problem, Statement: column.Statement})
		} else if err != nil {
			return Adoption{}, err
		}
	}
	if !found.Exists || len(plan.Blocked) > 0 {
		return plan, nil
	}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		return plan.Backlog.judge(ctx, tx, p, found.Database)
	})
	if err != nil {
		return Adoption{}, fmt.Errorf("judge the events that wait: %w", err)
	}
	return plan, nil
}

// judge reads the nine columns that every table has, by which an index on published_at may lead to them.
func (b *Backlog) judge(ctx context.Context, tx pgx.Tx, p AdoptionParams, version int64) error {
	living := ""
	if version >= 2 { // the step that adds dead_at
		living = " AND dead_at IS NULL"
	}
	rows, err := tx.Query(ctx, `SELECT id::text, event_type::text, aggregate_type::text, aggregate_id::text, payload_json::text, attempt_count
  FROM outbox_events WHERE published_at IS NULL`+living+` ORDER BY created_at LIMIT $1`, maxJudged)
	if err != nil {
		return err
	}
	refused := refusals{}
	row := dispatch.Claimed{Namespace: outbox.DefaultNamespace}
	_, err = pgx.ForEachRow(rows, []any{&row.ID, &row.EventType, &row.AggregateType, &row.AggregateID, &row.Payload, &row.AttemptCount}, func() error {
		b.Judged++
		row.Notes = dispatch.Notes{}
		reason, bad := dispatch.Examine(p.Catalogue, wire.PubSubLimits(), &row)
		switch {
		case row.AttemptCount >= p.MaxAttempts:
			b.AttemptsSpent++
		case bad == nil:
			b.Publish++
			if row.Notes.OtherID {
				b.OtherEventID++
			}
		default:
			refused.of(&row, reason, bad).Waiting++
		}
		return nil
	})
	b.Die = refused.list()
	return err
}
