package bench

import (
	"context"
	"fmt"

	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	minParkedRate  = 0.8 // of the rate without parked rows
	minKeyMBPerSec = 2.0
	minUnusedRate  = 0.97 // of a schema without keys, for events without one
	fewKeys        = 1000
	hotShare       = 5 // one key gets a fifth of the events
)

// keylessSQL takes away what the schema has for keys.
const keylessSQL = `
DROP TRIGGER outbox_events_refuse_rekey ON outbox_events;
DROP TRIGGER outbox_events_refuse_gap ON outbox_events;
DROP INDEX outbox_events_turn_idx, outbox_events_ordered_claim_idx, outbox_events_blocking_idx`

// keyless measures a drain without keys, on a schema that knows none, with a thousand keys, with one,
// behind parked rows, and beside a transaction that keeps every dead row.
func keyless(ctx context.Context, s *bench.Session) *bench.Report {
	plain := s.Params
	plain.Mode, plain.Keys, plain.Head = bench.Drain(), 0, 0
	keyed := plain
	keyed.Keys = max(plain.Events/2, 1)
	withoutKeys := func(r *bench.Trial) { rig.Must(r.DB.Pool.Exec(ctx, keylessSQL)) }
	var before, without, best *bench.Report
	for range bench.Rounds { // in turn
		before = must(bench.Faster(before, func() (*bench.Report, error) { return after(ctx, s, plain, withoutKeys) }))
		without = must(s.Better(ctx, plain, without))
		best = must(s.Better(ctx, keyed, best))
	}
	few, hot, behind := keyed, keyed, keyed
	few.Keys = min(fewKeys, plain.Events)
	hot.Keys, hot.Events = 1, max(plain.Events/hotShare, 1)
	behind.Head = s.Params.Head
	some, single := must(s.One(ctx, few)), must(s.One(ctx, hot))
	parked := must(after(ctx, s, behind, func(r *bench.Trial) {
		// A dead head, and what waits behind it.
		fill(ctx, r, behind.Head+1, order(), map[string]string{"dead_at": "CASE WHEN n = 0 THEN now() END", "ordering_key": "'default/parked'"})
	}))
	few.Mode, few.Check = PinnedXmin(), false
	pinned := pinnedXmin(ctx, s, few)
	without.Compared = []*bench.Report{before, best, some, single, parked, pinned}
	without.AtLeast("rate without keys over a schema without them", without.EventsPerSecond/before.EventsPerSecond, minUnusedRate)
	without.AtLeast("MB/s of one key", single.EventsPerSecond*float64(single.PayloadBytes)/1e6, minKeyMBPerSec)
	without.AtLeast(fmt.Sprintf("rate beside %d parked events", parked.Head), parked.EventsPerSecond/best.EventsPerSecond, minParkedRate)
	without.AtMost("claim p50 beside an old snapshot over undisturbed", pinned.Claim.Duration.P50/pinned.Compared[0].Claim.Duration.P50, maxPinnedClaim)
	return without
}

// after drains what is emitted after a change.
func after(ctx context.Context, s *bench.Session, p bench.Params, change func(*bench.Trial)) (*bench.Report, error) {
	return s.Drain(ctx, p, func(r *bench.Trial) error {
		change(r)
		return r.Emit(ctx, p.Events)
	})
}
