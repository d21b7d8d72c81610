package dlq

import (
	"context"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// ListDeadLetters passes the dead letters of a filter to each, newest first.
func (o *Outbox) ListDeadLetters(ctx context.Context, p outbox.ListParams, each func(Entry) error) (outbox.Paged, error) {
	start := func(f Filter) (*outbox.Scan[Entry], error) { return o.ScanDeadLetters(f, outbox.NewestFirst) }
	return outbox.List(ctx, &o.Outbox.Outbox, p, start, each, func(e Entry) string { return e.ID })
}

// mostGroups bounds a list of groups: they are counted by one statement and held in memory.
const mostGroups = 1_000_000

// GroupParams describes what to count.
type GroupParams struct {
	Filter Filter
	// By is one of dlq.GroupBy().
	By string
	// Limit is how many groups to return; 0: all.
	Limit int
}

// GroupResult is the groups, the largest first.
type GroupResult struct {
	Groups []Group
	// More reports that there are more groups than the limit.
	More bool
}

// Check reports what is wrong with the params, before anything is opened.
func (p *GroupParams) Check() error {
	if err := words.OneOf("--group-by", p.By, GroupBy()); err != nil {
		return err
	}
	return outbox.Page{Limit: p.Limit}.CheckLimit()
}

// GroupDeadLetters counts the dead letters of a filter by what they share.
func (o *Outbox) GroupDeadLetters(ctx context.Context, p GroupParams) (GroupResult, error) {
	if err := p.Check(); err != nil {
		return GroupResult{}, err
	}
	if err := o.SettleAggregate(ctx, &p.Filter); err != nil {
		return GroupResult{}, err
	}
	limit := p.Limit
	if limit == 0 || limit > mostGroups {
		limit = mostGroups
	}
	groups, err := o.Groups(ctx, p.Filter, p.By, limit+1) // one more than asked for tells whether there are more
	if err != nil {
		return GroupResult{}, err
	}
	shown := groups[:min(limit, len(groups))]
	return GroupResult{Groups: shown, More: len(shown) < len(groups)}, nil
}
