package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/builtin"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/bench"
)

// The criteria of the modes that drain.
const (
	minSpeedUp     = 40.0 // over row by row
	minOfFloor     = 0.7
	minBehindHead  = 0.5 // of the rate without
	maxBacklogCost = 1.3
	maxHistoryCost = 1.2
	maxIndexGrowth = 1.5
	// smallBacklog takes long enough for its rate to be steady.
	smallBacklog = 200_000
)

// Modes are the laboratory's.
func Modes() []bench.Mode {
	return []bench.Mode{
		Compared(), Floor(), RowByRow(), PinnedXmin(), BackingOff(), PausedTopic(), Backlog(), History(), Idle(), Keyless(), Catalogue(), UI(),
	}
}

// one measures a single drain.
func one(ctx context.Context, s *bench.Session) (*bench.Report, error) { return s.One(ctx, s.Params) }

// Floor is a drain without a broker: what the database alone allows.
func Floor() bench.Mode {
	return bench.Mode{Name: "db-only", Summary: "drain without a broker: the floor", Inside: true, Measure: one,
		To: func(r *bench.Trial) dispatch.Publisher { return floor{r} }}
}

// floor acknowledges at once: what remains is the database's cost.
type floor struct{ trial *bench.Trial }

func (p floor) Publish(_ context.Context, _ string, msgs []dispatch.Message) []dispatch.Result {
	p.trial.Record(msgs)
	results := make([]dispatch.Result, len(msgs))
	for i := range results {
		results[i].MessageID = "0"
	}
	return results
}

func (floor) Limits() wire.Limits { return wire.PubSubLimits() }

func (floor) Ready(context.Context, string) error { return nil }

// Compared judges a drain by the row-by-row loop and by the database alone.
func Compared() bench.Mode {
	return bench.Mode{Name: "compared", Summary: "drain, judged by row-by-row and db-only", Measure: compared}
}

func compared(ctx context.Context, s *bench.Session) (*bench.Report, error) {
	loop, floor := s.Params, s.Params
	loop.Mode, loop.Events, loop.Publishers, loop.Processes = RowByRow(), min(2_000, s.Params.Events), 1, false
	floor.Mode, floor.Processes = Floor(), false
	slow, err := s.One(ctx, loop)
	if err != nil {
		return slow, err
	}
	var bestFloor, best *bench.Report
	for range bench.Rounds {
		if bestFloor, err = s.Better(ctx, floor, bestFloor); err != nil {
			return bestFloor, err
		}
		if best, err = s.Better(ctx, s.Params, best); err != nil {
			return best, err
		}
	}
	best.Compared = []*bench.Report{slow, bestFloor}
	best.AtLeast("rate over row-by-row", best.EventsPerSecond/slow.EventsPerSecond, minSpeedUp)
	best.AtLeast("rate over db-only", best.EventsPerSecond/bestFloor.EventsPerSecond, minOfFloor)
	best.CheckShape()
	return best, nil
}

// BackingOff is a drain behind rows that wait for their next attempt.
func BackingOff() bench.Mode {
	return bench.Mode{Name: "backing-off", Summary: "drain behind --head rows that wait for their next attempt", Measure: behindHead,
		Defaults: bench.Sizes{Head: 100_000},
		Head:     &bench.Filling{EventType: builtin.TypeOrderCreated, Attempts: 3, DueIn: time.Hour, Namespace: "default"}}
}

// PausedTopic is a drain behind rows of a topic the broker lacks.
func PausedTopic() bench.Mode {
	return bench.Mode{Name: "paused-topic", Summary: "drain behind --head rows of a topic the broker lacks", Measure: behindHead,
		Defaults: bench.Sizes{Head: 1_000_000}, Partly: true,
		Head: &bench.Filling{EventType: builtin.TypePaymentSettled, Namespace: "default"}}
}

// behindHead drains behind rows that cannot be claimed.
func behindHead(ctx context.Context, s *bench.Session) (*bench.Report, error) {
	return against(ctx, s, *s.Params.Mode.Head, func(report, normal *bench.Report) {
		report.AtLeast("rate over one without a head", report.EventsPerSecond/normal.EventsPerSecond, minBehindHead)
	})
}

// History compares the cost per event without and with published rows lying behind.
func History() bench.Mode {
	return bench.Mode{Name: "history", Summary: "drain with --head published rows lying behind",
		Defaults: bench.Sizes{Head: 5_000_000},
		Measure: func(ctx context.Context, s *bench.Session) (*bench.Report, error) {
			behind := bench.Filling{EventType: builtin.TypeOrderCreated, Published: true, Namespace: "default"}
			return against(ctx, s, behind, func(report, normal *bench.Report) {
				report.AtMost("cost per event over one without history", normal.EventsPerSecond/report.EventsPerSecond, maxHistoryCost)
			})
		}}
}

// against measures a drain beside other rows and, to judge it, the same one without.
func against(ctx context.Context, s *bench.Session, rows bench.Filling, judge func(report, normal *bench.Report)) (*bench.Report, error) {
	var normal *bench.Report
	if s.Params.Check {
		plain := s.Params
		plain.Mode, plain.Head = bench.Drain(), 0
		var err error
		if normal, err = s.One(ctx, plain); err != nil {
			return normal, err
		}
	}
	report, err := s.Drain(ctx, s.Params, func(r *bench.Trial) error {
		if err := r.Fill(ctx, s.Params.Head, rows); err != nil {
			return err
		}
		return r.Emit(ctx, s.Params.Events)
	})
	if err == nil && normal != nil {
		report.Compared = []*bench.Report{normal}
		judge(report, normal)
	}
	return report, err
}

// Backlog compares the cost per event of a small and a large backlog, which is the head itself.
func Backlog() bench.Mode {
	return bench.Mode{Name: "backlog", Summary: fmt.Sprintf("drain --head rows; --check compares with %d", smallBacklog),
		Defaults: bench.Sizes{Head: 1_000_000}, Measure: backlog}
}

func backlog(ctx context.Context, s *bench.Session) (*bench.Report, error) {
	drain := func(n int) func() (*bench.Report, error) {
		p := s.Params
		p.Events = n
		return func() (*bench.Report, error) {
			return s.Drain(ctx, p, func(r *bench.Trial) error {
				return r.Fill(ctx, n, bench.Filling{EventType: builtin.TypeOrderCreated, Namespace: bench.Measured})
			})
		}
	}
	var small *bench.Report
	for range bench.Rounds {
		if !s.Params.Check {
			break
		}
		var err error
		if small, err = bench.Faster(small, drain(min(smallBacklog, s.Params.Head))); err != nil {
			return small, err
		}
	}
	report, err := drain(s.Params.Head)()
	if err == nil && small != nil {
		report.Compared = []*bench.Report{small}
		report.AtMost(fmt.Sprintf("cost per event over a backlog of %d", small.Events), small.EventsPerSecond/report.EventsPerSecond, maxBacklogCost)
		report.AtMost("claim index over its size before", report.ClaimIndexGrowth, maxIndexGrowth)
		report.CheckShape()
	}
	return report, err
}
