package dlq

import (
	"context"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// ListParams selects dead letters.
type ListParams struct {
	Filter Filter
	outbox.Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the cursor canonical.
func (p *ListParams) Check() error { return p.CheckCursor() }

// ListDeadLetters passes the dead letters of a filter to each, newest first.
func (o *Outbox) ListDeadLetters(ctx context.Context, p ListParams, each func(Entry) error) (outbox.Paged, error) {
	err := p.Check()
	if err != nil {
		return outbox.Paged{}, err
	}
	if p.Cursor, err = o.Complete(ctx, p.Cursor); err != nil {
		return outbox.Paged{}, err
	}
	if err = o.SettleAggregate(ctx, &p.Filter.AggregateType, &p.Filter.AggregateIDs); err != nil {
		return outbox.Paged{}, err
	}
	scan, err := o.store().NewScan(p.Filter, outbox.NewestFirst)
	if err != nil {
		return outbox.Paged{}, fault.As(fault.Usage, err)
	}
	scan.LookAt(p.LookAt, p.LookFor)
	paged, err := outbox.ListRows(ctx, p.Page, scan, each, func(e Entry) string { return e.ID })
	if last, looked := scan.Unfinished(); err == nil && paged.Next == "" {
		paged = outbox.Paged{Next: last, Looked: looked}
	}
	return paged, err
}

// DeathsPerHour counts the open dead letters of some fingerprints by how many hours ago they died, the last hour first.
func (o *Outbox) DeathsPerHour(ctx context.Context, hours int, fingerprints []string) (map[string][]int64, error) {
	return o.store().DeathsPerHour(ctx, hours, fingerprints)
}

// HandledCauses returns, by fingerprint, what was done lately about dead letters that had them, and with what success.
func (o *Outbox) HandledCauses(ctx context.Context, fingerprints []string) (map[string]Handled, error) {
	return o.store().Handled(ctx, fingerprints)
}

// CountDeadLettersUpTo counts the dead letters of a filter and stops at most. counted is false where every row would have to be
// looked at.
func (o *Outbox) CountDeadLettersUpTo(ctx context.Context, f Filter, most int) (n int64, counted bool, err error) {
	if err := o.SettleAggregate(ctx, &f.AggregateType, &f.AggregateIDs); err != nil {
		return 0, false, err
	}
	n, counted, err = o.store().CountUpTo(ctx, f, most)
	return n, counted, err
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
	if err := o.SettleAggregate(ctx, &p.Filter.AggregateType, &p.Filter.AggregateIDs); err != nil {
		return GroupResult{}, err
	}
	limit := p.Limit
	if limit == 0 || limit > mostGroups {
		limit = mostGroups
	}
	groups, err := o.store().Groups(ctx, p.Filter, p.By, limit+1) // one more than asked for tells whether there are more
	if err != nil {
		return GroupResult{}, err
	}
	shown := groups[:min(limit, len(groups))]
	return GroupResult{Groups: shown, More: len(shown) < len(groups)}, nil
}
