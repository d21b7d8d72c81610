package score

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/lab/bench"
	"github.com/outboxctl/outboxctl/lab/check"
	"github.com/outboxctl/outboxctl/lab/rig"
)

func (s *Session) measure(ctx context.Context, p bench.Params) (_ *bench.Report, exact bool) {
	p.Check, p.Program, p.Log = true, s.Program, s.Log
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
	r, exact := s.measure(ctx, bench.Params{Mode: "pinned-xmin", Sizes: bench.Sizes{Rate: 800, Duration: lasts}})
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
	r, exact := s.measure(ctx, bench.Params{Mode: "backlog", Sizes: bench.Sizes{Head: n}})
	small := r
	if len(r.Compared) > 0 {
		small = r.Compared[0]
	}
	return judge(exact, r.WritesPerEvent <= 1.05 && r.ClaimIndexGrowth <= 1.5, "%d events: written %.2f times each, claim index %.2f ×; %.0f events/s, a backlog of %d %.0f; %d lost, %d duplicates",
		n, r.WritesPerEvent, r.ClaimIndexGrowth, r.EventsPerSecond, small.Events, small.EventsPerSecond, r.Delivery.Missing, r.Delivery.Duplicates)
}

// steady is R22.
func (s *Session) steady(ctx context.Context) result {
	params := bench.Params{Mode: "steady", Sizes: bench.Sizes{Rate: 200, Duration: s.lasts(20*time.Second, time.Minute)}}
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

// simulation is R3: it is a test of the dispatcher, and is run as one.
func (s *Session) simulation(ctx context.Context) result {
	seeds := s.size(200, 1000)
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout", "30m", "-v", "-run",
		"TestSimulation$|TestSimulationGivesTheSameTraceForTheSameSeed$", "./internal/dispatch")
	cmd.Env = append(os.Environ(), fmt.Sprintf("SIMULATE_SEED=%d", s.Stamp.Seed),
		fmt.Sprintf("SIMULATE_SEEDS=%d", seeds))
	began := time.Now()
	said, err := cmd.CombinedOutput()
	var failing *exec.ExitError
	if err != nil && (!errors.As(err, &failing) || failing.ExitCode() != 1) {
		rig.Check(fmt.Errorf("run the simulation: %w: %s", err, said))
	}
	// go test is content with a pattern that no test has.
	if !strings.Contains(string(said), "=== RUN   TestSimulation\n") {
		rig.Check(fmt.Errorf("run the simulation: no such test: %s", said))
	}
	failed := strings.Count(string(said), "--- FAIL: TestSimulation/")
	return judge(err == nil, true,
		"%d seeds from %d on, and those kept: %d violated; same seed, same trace; %s", seeds, s.Stamp.Seed, failed, time.Since(began).Round(time.Second))
}

// Torture is the row of a torture run. A run that proves nothing has none.
func (s Stamp) Torture(name string, r check.Report) (Row, error) {
	if !r.Valid {
		return Row{}, fmt.Errorf("the run proves nothing and does not go on the scoreboard: %s",
			strings.Join(r.Invalid, "; "))
	}
	f := r.Figures
	faults, network := 0, 0
	for kind, n := range f.Faults {
		faults += n
		if strings.HasPrefix(kind, "network.") {
			network += n
		}
	}
	killed, restarted := f.Exits["killed"], f.Faults["postgres.restart"]
	enough := faults >= 40 && f.Duration >= 3*time.Minute && f.Rate >= 300
	if name == "R2" {
		enough = killed >= 300 && restarted >= 30 && network >= 150 && f.Duration >= time.Hour
	}
	verdict := judge(len(r.Violations) == 0, true, "").verdict
	if verdict == Met && !enough {
		verdict = MetSmaller
	}
	s.Seed = f.Seed
	return s.RowOf(name, fmt.Sprintf("%s at %d events/s: %d events committed, %d rolled back, %d faults (%d SIGKILL, %d database restarts, %d network), %d duplicates; %d violations",
		f.Duration.Round(time.Second), f.Rate, f.Committed, f.RolledBack, faults, killed, restarted, network, f.Duplicates, len(r.Violations)), verdict)
}

// Mutants is the row of a hunt for planted bugs.
func (s Stamp) Mutants(planted int, survived []string) (Row, error) {
	figure := fmt.Sprintf("%d planted, %d found", planted, planted-len(survived))
	if len(survived) > 0 {
		figure += "; not found: " + strings.Join(survived, ", ")
	}
	return s.RowOf("R4", figure, judge(len(survived) == 0, true, "").verdict)
}
