package cli

import (
	"context"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/idem"
)

// consumerMarks shows the consumers' keys in Redis to the dead-letter commands.
type consumerMarks struct{ keeper *idem.Keeper }

// Marks opens the consumers' store. Nothing is dialled yet.
func (a *App) Marks() (dlq.Marks, error) {
	client, err := a.Redis()
	if err != nil {
		return nil, err
	}
	cfg, err := a.Config("redis.url")
	if err != nil {
		return nil, err
	}
	return consumerMarks{idem.New(client, cfg.Idempotency.TTL)}, nil
}

func (m consumerMarks) Consumers(ctx context.Context) ([]string, error) {
	return m.keeper.Consumers(ctx)
}

func (m consumerMarks) Lookup(ctx context.Context, consumers, eventIDs []string) ([]dlq.Mark, error) {
	ids := make([]uuid.UUID, len(eventIDs))
	for i, text := range eventIDs {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	entries, err := m.keeper.LookupMany(ctx, consumers, ids)
	if err != nil {
		return nil, err
	}
	marks := make([]dlq.Mark, len(entries))
	for i, e := range entries {
		marks[i] = dlq.Mark{Consumer: e.Consumer, EventID: e.EventID.String(), State: string(e.State), Owner: e.Owner}
		if !e.Since.IsZero() {
			marks[i].Since = &e.Since
		}
		if e.ExpiresIn > 0 {
			marks[i].ExpiresIn = e.ExpiresIn.String()
		}
	}
	return marks, nil
}
