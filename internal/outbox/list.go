package outbox

import (
	"context"
	"errors"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// ListParams selects events, or dead letters.
type ListParams struct {
	Filter Filter
	Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the cursor canonical.
func (p *ListParams) Check() error { return p.CheckCursor() }

// ListEvents passes the events of a filter to each, newest first.
func (o *Outbox) ListEvents(ctx context.Context, p ListParams, each func(Event) error) (Paged, error) {
	if err := o.AddTopics(&p.Filter); err != nil {
		return Paged{}, err
	}
	start := func(f Filter) (*Scan[Event], error) { return o.ScanEvents(f, NewestFirst, false) }
	return List(ctx, o, p, start, each, func(e Event) string { return e.ID })
}

// List passes one part of a scan to each.
func List[T any](ctx context.Context, o *Outbox, p ListParams, start func(Filter) (*Scan[T], error), each func(T) error,
	id func(T) string,
) (paged Paged, err error) {
	if err := p.Check(); err != nil {
		return paged, err
	}
	if p.Cursor, err = o.Complete(ctx, p.Cursor); err != nil {
		return paged, err
	}
	if err := o.SettleAggregate(ctx, &p.Filter); err != nil {
		return paged, err
	}
	scan, err := start(p.Filter)
	if err != nil {
		return paged, fault.As(fault.Usage, err)
	}
	if p.Cursor != "" {
		err := scan.After(ctx, p.Cursor)
		if errors.Is(err, ErrNotFound) {
			return paged, fault.NotFoundf("no row %s to start after", p.Cursor)
		}
		if err != nil {
			return paged, err
		}
	}
	scan.LookAt(p.LookAt, p.LookFor)
	last, more, err := ReadPages(p.Limit, each, func(n int) ([]T, error) { return scan.List(ctx, n) })
	switch {
	case err != nil:
	case more:
		paged.Next = id(last)
	default:
		paged.Next, paged.Looked = scan.Unfinished()
	}
	return paged, err
}
