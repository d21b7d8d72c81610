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

// OrderEffects looks at what waits behind events. Where no key stands still it costs one look at an index; events is
// asked only otherwise.
func (s *Store) OrderEffects(ctx context.Context, events func() ([]string, error)) (out OrderEffects, err error) {
	var some bool
	if err := s.db.QueryRow(ctx, anyBlocked).Scan(&some); err != nil {
		return out, fmt.Errorf("look for keys that stand still: %w", err)
	}
	if !some {
		return out, nil
	}
	ids, err := events()
	if err != nil {
		return out, err
	}
	if err := s.db.QueryRow(ctx, orderEffects, ids).Scan(&out.Releases, &out.Behind); err != nil {
		return out, fmt.Errorf("count what waits behind the events: %w", err)
	}
	return out, nil
}
