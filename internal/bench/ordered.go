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
	minUnusedRate   = 0.97 // of a schema without keys, for events without one
	orderedFewKeys  = 1000
	orderedHotShare = 5 // one key gets a fifth of the events
)

// parkedSQL puts a dead head into the way, and what waits behind it.
const parkedSQL = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dead_at, ordering_key)
SELECT outbox_uuid_v7(), 'order_created', 'checkout_group', outbox_uuid_v7(), '{}', CASE WHEN n = 0 THEN now() END, 'default/parked'
  FROM generate_series(0, $1::int) AS n
 ORDER BY n`

// keylessSQL takes away what the schema has for keys.
const keylessSQL = `
DROP TRIGGER outbox_events_refuse_disorder ON outbox_events;
DROP TRIGGER outbox_events_refuse_rekey ON outbox_events;
DROP TRIGGER outbox_events_refuse_gap ON outbox_events;
DROP INDEX outbox_events_turn_idx, outbox_events_ordered_claim_idx, outbox_events_blocking_idx`

// ordered drains events with keys. To judge it, the same ones are drained without, also on a schema that knows no keys, and
// with a thousand keys, with one, behind parked rows, and beside a transaction that keeps every dead row.
func (s *session) ordered(ctx context.Context) (*Report, error) {
	p := s.params
	p.Head = 0
	if !s.params.Check {
		return s.one(ctx, p)
	}
	plain := p
	plain.Mode, plain.Keys = ModeDrain, 0
	var before, without, best *Report
	var err error
	for range rounds { // in turn
		if before, err = faster(before, func() (*Report, error) { return s.keyless(ctx, plain) }); err != nil {
			return before, err
		}
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
	few.Mode, few.Check = ModePinnedXmin, false
	pinned, err := s.pinnedXmin(ctx, few)
	if err != nil {
		return pinned, err
	}
	best.Compared = []*Report{before, without, fewKeys, oneKey, parked, pinned}
	best.atLeast("rate without keys over a schema without them", without.EventsPerSecond/before.EventsPerSecond, minUnusedRate)
	best.atLeast("rate over the same without keys", best.EventsPerSecond/without.EventsPerSecond, minOrderedRate)
	best.atMost("claim and settle over the same without keys", cost(best)/cost(without), maxOrderedCost)
	best.atLeast("MB/s of one key", oneKey.EventsPerSecond*float64(oneKey.PayloadBytes)/1e6, minKeyMBPerSec)
	best.atLeast(fmt.Sprintf("rate beside %d parked events", parked.Head), parked.EventsPerSecond/best.EventsPerSecond, minParkedRate)
	best.atMost("claim p50 beside an old snapshot over undisturbed", pinned.Claim.Duration.P50/pinned.Compared[0].Claim.Duration.P50, maxPinnedClaim)
	return best, nil
}

func cost(r *Report) float64 { return r.Claim.MicrosPerRow + r.Settle.MicrosPerRow }

// keyless drains on a schema as it would be without keys.
func (s *session) keyless(ctx context.Context, p Params) (*Report, error) {
	return s.drainOf(ctx, p, func(r *run) error {
		if _, err := r.db.pool.Exec(ctx, keylessSQL); err != nil {
			return fmt.Errorf("take keys away: %w", err)
		}
		return r.emit(ctx, p.Events)
	})
}

func (s *session) behindDeadHead(ctx context.Context, p Params) (*Report, error) {
	p.Head = s.params.Head
	return s.drainOf(ctx, p, func(r *run) error {
		if _, err := r.db.pool.Exec(ctx, parkedSQL, p.Head); err != nil {
			return fmt.Errorf("park events: %w", err)
		}
		return r.emit(ctx, p.Events)
	})
}
