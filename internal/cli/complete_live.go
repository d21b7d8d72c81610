package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// CompletePlans suggests the newest plans, with what they do and how far they are.
func CompletePlans(app *App) Completion {
	return completeLive(app, nil, func(ctx context.Context, db *pgxpool.Pool, _ string) ([]string, error) {
		var found []outbox.Suggestion
		newest := dlq.ListPlansParams{Page: outbox.Page{Limit: outbox.SuggestLimit}}
		_, err := dlq.New(db, nil).ListPlans(ctx, newest, func(p dlq.Plan) error {
			found = append(found, outbox.Suggestion{Value: p.ID, About: string(p.Action) + ", " + p.State})
			return nil
		})
		return described(found, err)
	})
}

// CompleteAuditRuns suggests the newest runs of the audit trail.
func CompleteAuditRuns(app *App) Completion {
	return completeLive(app, nil, func(ctx context.Context, db *pgxpool.Pool, _ string) ([]string, error) {
		var found []outbox.Suggestion
		newest := dlq.AuditParams{Page: outbox.Page{Limit: outbox.SuggestLimit}}
		_, err := dlq.New(db, nil).AuditRuns(ctx, newest, func(r dlq.AuditRun) error {
			found = append(found, outbox.Suggestion{Value: r.Run, About: r.Action + " by " + r.Actor})
			return nil
		})
		return described(found, err)
	})
}

// CompleteConsumers suggests the consumers that Redis or the inbox knows; each is asked though the other is away.
func CompleteConsumers(app *App) Completion {
	return complete(app, nil, func(ctx context.Context, _ string) ([]string, error) {
		var inbox, announced []string
		pool, err := app.Pool(ctx)
		if err == nil {
			inbox, err = dlq.New(pool, nil).InboxConsumers(ctx)
		}
		keeper, redisErr := app.Keeper()
		if redisErr == nil {
			announced, redisErr = keeper.Consumers(ctx)
		}
		names := slices.Concat(inbox, announced)
		slices.Sort(names)
		return slices.Compact(names), errors.Join(err, redisErr)
	})
}

// CompletePauses suggests what is paused of one kind.
func CompletePauses(app *App, kind string) Completion {
	return completeLive(app, nil, func(ctx context.Context, db *pgxpool.Pool, _ string) ([]string, error) {
		pauses, err := outbox.Pauses(ctx, db)
		var found []outbox.Suggestion
		for _, p := range pauses {
			if p.Kind == kind {
				found = append(found, outbox.Suggestion{Value: p.Value, About: "paused by " + p.Actor + " " + p.Note})
			}
		}
		return described(found, err)
	})
}
