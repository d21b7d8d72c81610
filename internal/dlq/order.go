package dlq

import (
	"context"
	"fmt"
)

// OrderEffects describes what a change to dead events does to those that wait behind them in their ordering key.
type OrderEffects struct {
	// Releases is how many waiting events a discard lets go.
	Releases int64 `json:"releases,omitempty"`
	// Behind is how many of the events stay parked when they are replayed: a dead one before them is not replayed.
	Behind int64 `json:"behind,omitempty"`
}

// The events of a set, for orderEffects.
const (
	namedEvents = `unnest($1::uuid[])`
	planEvents  = `(SELECT unnest(c.event_ids) FROM outbox_plan_chunks AS c WHERE c.plan_id = $1::uuid)`
)

// effects looks at what an action does to what waits behind the events that a query finds by its argument. Where no key
// stands still it costs one look at an index; arg is asked only otherwise.
func (o *Outbox) effects(ctx context.Context, action Action, query string, arg func() (any, error)) (out OrderEffects, err error) {
	if action != Replay && action != Discard {
		return out, nil
	}
	var some bool
	if err := o.DB.QueryRow(ctx, anyBlocked).Scan(&some); err != nil {
		return out, fmt.Errorf("look for keys that stand still: %w", err)
	}
	if !some {
		return out, nil
	}
	set, err := arg()
	if err != nil {
		return out, err
	}
	if err := o.DB.QueryRow(ctx, fmt.Sprintf(orderEffects, query), set).Scan(&out.Releases, &out.Behind); err != nil {
		return out, fmt.Errorf("count what waits behind the events: %w", err)
	}
	if action == Discard {
		return OrderEffects{Releases: out.Releases}, nil
	}
	return OrderEffects{Behind: out.Behind}, nil
}
