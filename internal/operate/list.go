package operate

import (
	"context"
	"errors"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// ListEventsParams selects events.
type ListEventsParams struct {
	Filter outbox.Filter
	Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the cursor canonical.
func (p *ListEventsParams) Check() error { return p.checkCursor() }

// ListEvents passes the events of a filter to each, newest first.
func (o *Outbox) ListEvents(ctx context.Context, p ListEventsParams, each func(outbox.Event) error) (Paged, error) {
	err := p.Check()
	if err != nil {
		return Paged{}, err
	}
	if p.Cursor, err = o.complete(ctx, p.Cursor); err != nil {
		return Paged{}, err
	}
	if err := o.addTopics(&p.Filter); err != nil {
		return Paged{}, err
	}
	if err = o.settleAggregate(ctx, &p.Filter.AggregateType, &p.Filter.AggregateIDs); err != nil {
		return Paged{}, err
	}
	scan, err := o.events().NewScan(p.Filter, outbox.NewestFirst, false)
	if err != nil {
		return Paged{}, fault.As(fault.Usage, err)
	}
	return listRows(ctx, p.Page, scan, each, func(e outbox.Event) string { return e.ID })
}

// ListDeadLettersParams selects dead letters.
type ListDeadLettersParams struct {
	Filter dlq.Filter
	Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the cursor canonical.
func (p *ListDeadLettersParams) Check() error { return p.checkCursor() }

// ListDeadLetters passes the dead letters of a filter to each, newest first.
func (o *Outbox) ListDeadLetters(ctx context.Context, p ListDeadLettersParams, each func(dlq.Entry) error) (Paged, error) {
	err := p.Check()
	if err != nil {
		return Paged{}, err
	}
	if p.Cursor, err = o.complete(ctx, p.Cursor); err != nil {
		return Paged{}, err
	}
	if err = o.settleAggregate(ctx, &p.Filter.AggregateType, &p.Filter.AggregateIDs); err != nil {
		return Paged{}, err
	}
	scan, err := o.store().NewScan(p.Filter, outbox.NewestFirst)
	if err != nil {
		return Paged{}, fault.As(fault.Usage, err)
	}
	scan.LookAt(p.LookAt, p.LookFor)
	paged, err := listRows(ctx, p.Page, scan, each, func(e dlq.Entry) string { return e.ID })
	if last, looked := scan.Unfinished(); err == nil && paged.Next == "" {
		paged = Paged{Next: last, Looked: looked}
	}
	return paged, err
}

// DeathsPerHour counts the open dead letters of some fingerprints by how many hours ago they died, the last hour first.
func (o *Outbox) DeathsPerHour(ctx context.Context, hours int, fingerprints []string) (map[string][]int64, error) {
	found, err := o.store().DeathsPerHour(ctx, hours, fingerprints)
	return found, fault.Database(err)
}

// HandledCauses returns, by fingerprint, what was done lately about dead letters that had them, and with what success.
func (o *Outbox) HandledCauses(ctx context.Context, fingerprints []string) (map[string]dlq.Handled, error) {
	found, err := o.store().Handled(ctx, fingerprints)
	return found, fault.Database(err)
}

// CountDeadLettersUpTo counts the dead letters of a filter and stops at most. counted is false where every row would have to be
// looked at.
func (o *Outbox) CountDeadLettersUpTo(ctx context.Context, f dlq.Filter, most int) (n int64, counted bool, err error) {
	if err := o.settleAggregate(ctx, &f.AggregateType, &f.AggregateIDs); err != nil {
		return 0, false, err
	}
	n, counted, err = o.store().CountUpTo(ctx, f, most)
	return n, counted, fault.Database(err)
}

// A scan walks rows in their order.
type scan[T any] interface {
	After(ctx context.Context, id string) error
	List(ctx context.Context, n int) ([]T, error)
}

// listRows passes one part of a scan to each.
func listRows[T any](ctx context.Context, p Page, s scan[T], each func(T) error, id func(T) string) (Paged, error) {
	if p.Cursor != "" {
		err := s.After(ctx, p.Cursor)
		if errors.Is(err, outbox.ErrNotFound) {
			return Paged{}, fault.NotFoundf("no row %s to start after", p.Cursor)
		}
		if err != nil {
			return Paged{}, fault.Database(err)
		}
	}
	last, more, err := readPages(p.Limit, each, func(n int) ([]T, error) { return s.List(ctx, n) })
	if err != nil || !more {
		return Paged{}, fault.Database(err)
	}
	return Paged{Next: id(last)}, nil
}

// mostGroups bounds a list of groups: they are counted by one statement and held in memory.
const mostGroups = 1_000_000

// GroupDeadLettersParams describes what to count.
type GroupDeadLettersParams struct {
	Filter dlq.Filter
	// By is one of dlq.GroupBy().
	By string
	// Limit is how many groups to return; 0: all.
	Limit int
}

// GroupDeadLettersResult is the groups, the largest first.
type GroupDeadLettersResult struct {
	Groups []dlq.Group
	// More reports that there are more groups than the limit.
	More bool
}

// Check reports what is wrong with the params, before anything is opened.
func (p *GroupDeadLettersParams) Check() error {
	if err := words.OneOf("--group-by", p.By, dlq.GroupBy()); err != nil {
		return err
	}
	return Page{Limit: p.Limit}.check()
}

// GroupDeadLetters counts the dead letters of a filter by what they share.
func (o *Outbox) GroupDeadLetters(ctx context.Context, p GroupDeadLettersParams) (GroupDeadLettersResult, error) {
	if err := p.Check(); err != nil {
		return GroupDeadLettersResult{}, err
	}
	if err := o.settleAggregate(ctx, &p.Filter.AggregateType, &p.Filter.AggregateIDs); err != nil {
		return GroupDeadLettersResult{}, err
	}
	limit := p.Limit
	if limit == 0 || limit > mostGroups {
		limit = mostGroups
	}
	groups, err := o.store().Groups(ctx, p.Filter, p.By, limit+1) // one more than asked for tells whether there are more
	if err != nil {
		return GroupDeadLettersResult{}, fault.Database(err)
	}
	shown := groups[:min(limit, len(groups))]
	return GroupDeadLettersResult{Groups: shown, More: len(shown) < len(groups)}, nil
}
