package dlq

import (
	"context"
	"slices"

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

// marks counts what consumers remember of events, which it is given part by part.
func (o *Outbox) marks(ctx context.Context, consumers []string, each func(func(events []string) error) error) ([]MarkCount, error) {
	counts := make([]MarkCount, len(consumers))
	for i, name := range consumers {
		counts[i].Consumer = name
	}
	err := each(func(events []string) error {
		var ids []uuid.UUID
		for _, event := range events {
			if id, err := uuid.Parse(event); err == nil { // empty when the id was not found
				ids = append(ids, id)
			}
		}
		entries, err := o.Keeper.LookupMany(ctx, consumers, ids)
		for _, e := range entries {
			counts[slices.Index(consumers, e.Consumer)].add(e.State)
		}
		return err
	})
	return counts, err
}

// Marks counts what each consumer remembers of the events in the set.
func (s *ChangeSet) Marks(ctx context.Context, consumers []string) ([]MarkCount, error) {
	if err := idem.CheckConsumers(consumers); err != nil {
		return nil, err
	}
	if s.outbox.Keeper == nil {
		return nil, idem.ErrNoRedis()
	}
	return s.outbox.marks(ctx, consumers, func(count func([]string) error) error {
		return s.each(ctx, func(targets []Target) error {
			if err := count(eventsOf(targets)); err != nil {
				return fault.Preconditionf("ask the consumers' store: %w", err)
			}
			return nil
		})
	})
}

// allMarks counts what every known consumer remembers of events.
func (o *Outbox) allMarks(ctx context.Context, events []string) ([]MarkCount, error) {
	if o.Keeper == nil {
		return nil, idem.ErrNoRedis()
	}
	ctx, cancel := context.WithTimeout(ctx, planMarksTimeout)
	defer cancel()
	names, err := o.Keeper.Consumers(ctx)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return o.marks(ctx, names, func(count func([]string) error) error { return count(events) })
}
