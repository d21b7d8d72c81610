package score

import (
	"context"
	"strings"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// refusal is the SQLSTATE of a claim that does not keep the order.
const refusal = "OX103"

// versions is R27: a rolling deploy in which producers use keys too early. New publishers send
// everything.
func (s *Session) versions(ctx context.Context) result {
	if s.Older == "" {
		return result{"no program of before ordering keys was given", NotRun}
	}
	const lease = 2 * time.Second
	lasts := s.lasts(20*time.Second, 20*time.Second)
	return s.in(ctx, surroundings{}, func(w *world) result {
		old := w.Start("older", w.env(), s.Older, append([]string{"publish", "--http-addr",
			"127.0.0.1:0"}, shortLease(lease)...)...)
		w.publishers(ctx, 2, shortLease(lease)...)
		ready(ctx, old)
		mixed := func(ctx context.Context) {
			plain := make([]emit.Event, 10)
			for i := range plain {
				plain[i] = newEvent(false)
			}
			emitAll(ctx, w.pool, plain...)
			w.emitOrdered(ctx, 20)
		}
		emitWhile(ctx, lasts/2, mixed)
		// It looks at what waits at that moment.
		named := rig.Eventually(ctx, time.Minute, func() bool {
			mixed(ctx)
			report := w.try(ctx, "doctor") // its exit code says that there is a finding
			return strings.Contains(report.Stdout, "publishers of an older version are refused")
		}) == nil
		old.End(ctx, syscall.SIGTERM)
		w.publish("its successor", shortLease(lease)...)
		emitWhile(ctx, lasts/2, mixed)
		w.settled(ctx, 2*time.Minute)
		wrong := w.disordered(ctx, w.ledger.place)
		t := w.tally(ctx)
		refused := old.Said(refusal)
		return judge(t.lost == 0 && t.unknown == 0 && wrong == 0 && refused > 0, named,
			"%d events, two thirds of them in %d keys: %d claims of the older one refused, doctor names it: %t; %d first copies out of order, %d lost, %d duplicates",
			t.events, orderedKeys, refused, named, wrong, t.lost, t.duplicates)
	})
}
