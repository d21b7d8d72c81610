package bench

import (
	"context"
	"fmt"
)

// The criteria of mode ordered.
const (
	minOrderedRate  = 0.5 // of the same events without keys, at two rows a key
	maxOrderedCost  = 1.6 // of claim and settle, by their time
	minParkedRate   = 0.8 // of the rate without parked rows
	minKeyMBPerSec  = 2.0
	orderedFewKeys  = 1000
	orderedHotShare = 5 // one key gets a fifth of the events
)

// parkedSQL puts a dead head into the way, and what waits behind it.
const parkedSQL = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dead_at, ordering_key)
SELECT outbox_uuid_v7(), 'order_created', 'checkout_group', outbox_uuid_v7(), '{}', CASE WHEN n = 0 THEN now() END, 'default/parked'
  FROM generate_series(0, $1::int) AS n
 ORDER BY n`

// ordered drains events with keys. To judge it, the same ones are drained without, and with a thousand keys, with one,
// and behind parked rows.
func (s *session) ordered(ctx context.Context) (*Report, error) {
	p := s.params
	p.Head = 0
	if !s.params.Check {
		return s.one(ctx, p)
	}
	plain := p
	plain.Mode, plain.Keys = ModeDrain, 0
	var without, best *Report
	var err error
	for range rounds { // in turn
		if without, err = s.better(ctx, plain, without); err != nil {
			return without, err
		}
		if best, err = s.better(ctx, p, best); err != nil {
			return best, err
		}
	}
	few, hot := p, p
	few.Keys = min(orderedFewKeys, p.Events)
	hot.Keys, hot.Events = 1, max(p.Events/orderedHotShare, 1)
	fewKeys, err := s.one(ctx, few)
	if err != nil {
		return fewKeys, err
	}
	oneKey, err := s.one(ctx, hot)
	if err != nil {
		return oneKey, err
	}
	parked, err := s.behindDeadHead(ctx, p)
	if err != nil {
		return parked, err
	}
	best.Compared = []*Report{without, fewKeys, oneKey, parked}
	best.atLeast("rate over the same without keys", best.EventsPerSecond/without.EventsPerSecond, minOrderedRate)
	best.atMost("claim and settle over the same without keys", cost(best)/cost(without), maxOrderedCost)
	best.atLeast("MB/s of one key", oneKey.EventsPerSecond*float64(oneKey.PayloadBytes)/1e6, minKeyMBPerSec)
	best.atLeast(fmt.Sprintf("rate beside %d parked events", parked.Head), parked.EventsPerSecond/best.EventsPerSecond, minParkedRate)
	return best, nil
}

func cost(r *Report) float64 { return r.Claim.MicrosPerRow + r.Settle.MicrosPerRow }

func (s *session) behindDeadHead(ctx context.Context, p Params) (*Report, error) {
	p.Head = s.params.Head
	return s.drainOf(ctx, p, func(r *run) error {
		if _, err := r.db.pool.Exec(ctx, parkedSQL, p.Head); err != nil {
			return fmt.Errorf("park events: %w", err)
		}
		return r.emit(ctx, p.Events)
	})
}
