package dlq

import (
	"context"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// DeadLetter reads a dead letter by its id or its event's. Of an event with several, the newest open one is meant, or else the
// newest.
func (o *Outbox) DeadLetter(ctx context.Context, id string) (Entry, error) {
	id, err := o.Complete(ctx, id)
	if err != nil {
		return Entry{}, err
	}
	targets, err := o.store().Resolve(ctx, []string{id}, StateOpen)
	if err != nil {
		return Entry{}, err
	}
	if targets[0].ID == "" {
		return Entry{}, fault.Hint(fault.NotFoundf("no dead letter %s, and no dead letter of an event with that id", id),
			"outboxctl why %s tells what became of an event", id)
	}
	entries, err := o.store().Entries(ctx, []string{targets[0].ID})
	if err != nil {
		return Entry{}, err
	}
	if len(entries) == 0 {
		return Entry{}, fault.NotFoundf("dead letter %s has just been removed", id)
	}
	return entries[0], nil
}
