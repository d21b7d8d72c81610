package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// CompletePlans suggests the newest plans, with what they do and how far they are.
func CompletePlans(app *App) Completion {
	return completeLive(app, nil, func(ctx context.Context, box *dlq.Outbox, _ string) (found []outbox.Suggestion, err error) {
		newest := dlq.ListPlansParams{Page: outbox.Page{Limit: outbox.SuggestLimit}}
		_, err = box.ListPlans(ctx, newest, func(p dlq.Plan) error {
			found = append(found, outbox.Suggestion{Value: p.ID, About: string(p.Action) + ", " + p.State})
			return nil
		})
		return found, err
	})
}

// CompleteAuditRuns suggests the newest runs of the audit trail.
func CompleteAuditRuns(app *App) Completion {
	return completeLive(app, nil, func(ctx context.Context, box *dlq.Outbox, _ string) (found []outbox.Suggestion, err error) {
		newest := dlq.AuditParams{Page: outbox.Page{Limit: outbox.SuggestLimit}}
		_, err = box.AuditRuns(ctx, newest, func(r dlq.AuditRun) error {
			found = append(found, outbox.Suggestion{Value: r.Run, About: r.Action + " by " + r.Actor})
			return nil
		})
		return found, err
	})
}

// CompleteConsumers suggests the consumers that Redis or the inbox knows; each is asked though the
// other is away.
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
	return completeLive(app, nil, func(ctx context.Context, box *dlq.Outbox, _ string) (found []outbox.Suggestion, err error) {
		pauses, err := outbox.Pauses(ctx, box.DB)
		for _, p := range pauses {
			if p.Kind == kind {
				found = append(found, outbox.Suggestion{Value: p.Value, About: "paused by " + p.Actor + " " + p.Note})
			}
		}
		return found, err
	})
}
