package outbox

import (
	"context"
	"errors"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// ListEventsParams selects events.
type ListEventsParams struct {
	Filter Filter
	Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the cursor canonical.
func (p *ListEventsParams) Check() error { return p.CheckCursor() }

// ListEvents passes the events of a filter to each, newest first.
func (o *Outbox) ListEvents(ctx context.Context, p ListEventsParams, each func(Event) error) (Paged, error) {
	err := p.Check()
	if err != nil {
		return Paged{}, err
	}
	if p.Cursor, err = o.Complete(ctx, p.Cursor); err != nil {
		return Paged{}, err
	}
	if err := o.AddTopics(&p.Filter); err != nil {
		return Paged{}, err
	}
	if err = o.SettleAggregate(ctx, &p.Filter.AggregateType, &p.Filter.AggregateIDs); err != nil {
		return Paged{}, err
	}
	scan, err := o.Events().NewScan(p.Filter, NewestFirst, false)
	if err != nil {
		return Paged{}, fault.As(fault.Usage, err)
	}
	return ListRows(ctx, p.Page, scan, each, func(e Event) string { return e.ID })
}

// A scan walks rows in their order.
type scan[T any] interface {
	After(ctx context.Context, id string) error
	List(ctx context.Context, n int) ([]T, error)
}

// ListRows passes one part of a scan to each.
func ListRows[T any](ctx context.Context, p Page, s scan[T], each func(T) error, id func(T) string) (Paged, error) {
	if p.Cursor != "" {
		err := s.After(ctx, p.Cursor)
		if errors.Is(err, ErrNotFound) {
			return Paged{}, fault.NotFoundf("no row %s to start after", p.Cursor)
		}
		if err != nil {
			return Paged{}, err
		}
	}
	last, more, err := ReadPages(p.Limit, each, func(n int) ([]T, error) { return s.List(ctx, n) })
	if err != nil || !more {
		return Paged{}, err
	}
	return Paged{Next: id(last)}, nil
}
