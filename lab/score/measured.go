package score

import (
	"context"
	"errors"
	"time"

	"github.com/outboxctl/outboxctl/internal/bench"
	measuring "github.com/outboxctl/outboxctl/lab/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// measure runs outboxctl bench's own measurement.
func (s *Session) measure(ctx context.Context, p bench.Params) (_ *bench.Report, exact bool) {
	p.Check = true
	p.Progress = func(format string, args ...any) { s.say("  "+format, args...) }
	report, err := bench.Run(ctx, p)
	if errors.Is(err, bench.ErrWrong) {
		return report, false
	}
	rig.Check(err)
	return report, true
}

// pinnedXmin is R12.
func (s *Session) pinnedXmin(ctx context.Context) result {
	lasts := s.lasts(time.Minute, 3*time.Minute)
	r, exact := s.measure(ctx, bench.Params{Mode: measuring.PinnedXmin(), Rate: 800, Duration: lasts})
	if !exact {
		return judge(false, true, "%s: %+v", lasts, r.Delivery)
	}
	base := r.Compared[0].Claim.Duration
	share, times := r.EventsPerSecond/800, r.Claim.Duration.P99/base.P99
	return judge(true, share >= 0.95 && times <= 3, "%s: claim p99 %.1f ms, %.1f × the undisturbed %.1f ms; %.0f %% of the rate; 0 lost, 0 duplicates",
		lasts, r.Claim.Duration.P99, times, base.P99, 100*share)
}

// manyEvents is R13.
func (s *Session) manyEvents(ctx context.Context) result {
	n := s.size(400_000, 1_000_000)
	r, exact := s.measure(ctx, bench.Params{Mode: measuring.Backlog(), Head: n, Processes: true,
		Executable: s.Program})
	small := r
	if len(r.Compared) > 0 {
		small = r.Compared[0]
	}
	return judge(exact, r.WritesPerEvent <= 1.05 && r.ClaimIndexGrowth <= 1.5, "%d events: written %.2f times each, claim index %.2f ×; %.0f events/s, a backlog of %d %.0f; %d lost, %d duplicates",
		n, r.WritesPerEvent, r.ClaimIndexGrowth, r.EventsPerSecond, small.Events, small.EventsPerSecond, r.Delivery.Missing, r.Delivery.Duplicates)
}

// steady is R22.
func (s *Session) steady(ctx context.Context) result {
	params := bench.Params{Mode: bench.Steady(), Rate: 200,
		Duration: s.lasts(20*time.Second, time.Minute)}
	hint, exact := s.measure(ctx, params)
	params.NoWake = true
	poll, exactToo := s.measure(ctx, params)
	if !exact || !exactToo {
		return judge(false, true, "%+v, %+v", hint.Delivery, poll.Delivery)
	}
	return judge(true, hint.Latency.P50 <= 10 && hint.Latency.P99 <= 50 && poll.Latency.P50 <= 500,
		"%s: with the hint p50 %.1f ms, p99 %.1f ms; polling only p50 %.1f ms, p99 %.1f ms",
		params.Duration, hint.Latency.P50, hint.Latency.P99, poll.Latency.P50, poll.Latency.P99)
}
