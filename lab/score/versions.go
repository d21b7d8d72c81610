package score

import (
	"context"
	"strings"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/emit"
)

// refusal is the SQLSTATE of a claim that does not keep the order.
const refusal = "OX103"

// versions is R27: a rolling deploy in which producers use keys too early. New publishers send everything.
func (s *Session) versions(ctx context.Context) (result, error) {
	if s.Older == "" {
		return result{"no program of before ordering keys was given", NotRun}, nil
	}
	const lease = 2 * time.Second
	lasts := s.lasts(20*time.Second, 20*time.Second)
	return s.in(ctx, surroundings{}, func(w *world) (result, error) {
		old, err := w.run(s.Older, "older", nil, append([]string{"publish", "--http-addr", "127.0.0.1:0"}, shortLease(lease)...)...)
		if err != nil {
			return result{}, err
		}
		all, err := w.publishers(2, shortLease(lease)...)
		if err != nil {
			return result{}, err
		}
		if err := ready(ctx, append(all, old)...); err != nil {
			return result{}, err
		}
		mixed := func(ctx context.Context) error {
			plain := make([]emit.Event, 10)
			for i := range plain {
				plain[i] = newEvent(false)
			}
			if err := w.emitAll(ctx, plain...); err != nil {
				return err
			}
			return w.emitOrdered(ctx, 20)
		}
		if err := emitWhile(ctx, lasts/2, mixed); err != nil {
			return result{}, err
		}
		// It looks at what waits at that moment.
		named := eventually(ctx, time.Minute, func() (bool, error) {
			if err := mixed(ctx); err != nil {
				return false, err
			}
			report, _ := w.command(ctx, "doctor") // its exit code says that there is a finding
			return strings.Contains(report, "publishers of an older version are refused"), nil
		}) == nil
		if err := old.end(ctx, syscall.SIGTERM); err != nil {
			return result{}, err
		}
		if _, err := w.publish("its successor", shortLease(lease)...); err != nil {
			return result{}, err
		}
		if err := emitWhile(ctx, lasts/2, mixed); err != nil {
			return result{}, err
		}
		if err := w.settled(ctx, 2*time.Minute); err != nil {
			return result{}, err
		}
		wrong, err := w.disordered(ctx, w.broker.place)
		if err != nil {
			return result{}, err
		}
		t, err := w.tally(ctx)
		if err != nil {
			return result{}, err
		}
		refused := old.said(refusal)
		return judge(t.lost == 0 && t.unknown == 0 && wrong == 0 && refused > 0, named,
			"%d events, two thirds of them in %d keys: %d claims of the older one refused, doctor names it: %t; %d first copies out of order, %d lost, %d duplicates",
			t.events, orderedKeys, refused, named, wrong, t.lost, t.duplicates), nil
	})
}
