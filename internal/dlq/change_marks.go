package dlq

import (
	"context"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
)

// MarkCount is how many events of a set a consumer knows.
type MarkCount struct {
	Consumer   string `json:"consumer"`
	Processed  int64  `json:"processed"`
	Processing int64  `json:"processing"`
	Unknown    int64  `json:"unknown"`
}

func (c *MarkCount) add(state consume.State) {
	switch state {
	case consume.StateProcessed:
		c.Processed++
	case consume.StateProcessing:
		c.Processing++
	default:
		c.Unknown++
	}
}

// Marks counts what each consumer remembers of the events in the set.
func (s *ChangeSet) Marks(ctx context.Context, consumers []string) ([]MarkCount, error) {
	if err := idem.CheckConsumers(consumers); err != nil {
		return nil, err
	}
	if s.keeper == nil {
		return nil, idem.ErrNoRedis()
	}
	counts := make([]MarkCount, len(consumers))
	place := make(map[string]*MarkCount, len(consumers))
	for i, name := range consumers {
		counts[i].Consumer = name
		place[name] = &counts[i]
	}
	err := s.each(ctx, func(targets []Target) error {
		var ids []uuid.UUID
		for _, t := range targets {
			if id, err := uuid.Parse(t.EventID); err == nil { // empty when the id was not found
				ids = append(ids, id)
			}
		}
		entries, err := s.keeper.LookupMany(ctx, consumers, ids)
		if err != nil {
			return fault.Preconditionf("ask the consumers' store: %w", err)
		}
		for _, e := range entries {
			place[e.Consumer].add(e.State)
		}
		return nil
	})
	return counts, err
}
