package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/emit/builtin"
)

// The criteria of the modes that drain.
const (
	minSpeedUp      = 40.0 // over row by row
	minOfFloor      = 0.7
	minHOTShare     = 0.95
	minBehindHead   = 0.5 // of the rate without
	maxBacklogCost  = 1.3
	maxHistoryCost  = 1.2
	maxIndexGrowth  = 1.5
	maxPublisherMiB = 120.0
	// backingOffAttempts is how often the rows of backing-off have failed.
	backingOffAttempts = 3
	// smallBacklog takes long enough for its rate to be steady.
	smallBacklog = 200_000
	// rounds is how often compared drains are repeated, in turn; the best of each
	// counts, since whatever disturbs a run only makes it slower.
	rounds = 2
)

// drain is judged by the row-by-row loop and by the database alone.
func (s *session) drain(ctx context.Context) (*Report, error) {
	if !s.params.Check {
		return s.one(ctx, s.params)
	}
	naive := s.params
	naive.Mode, naive.Events, naive.Publishers, naive.Processes = ModeRowByRow, min(2_000, s.params.Events), 1, false
	floor := s.params
	floor.Mode, floor.Processes = ModeFloor, false

	loop, err := s.one(ctx, naive)
	if err != nil {
		return loop, err
	}
	var bestFloor, best *Report
	for range rounds {
		if bestFloor, err = s.better(ctx, floor, bestFloor); err != nil {
			return bestFloor, err
		}
		if best, err = s.better(ctx, s.params, best); err != nil {
			return best, err
		}
	}
	best.Compared = []*Report{loop, bestFloor}
	best.atLeast("rate over row-by-row", best.EventsPerSecond/loop.EventsPerSecond, minSpeedUp)
	best.atLeast("rate over db-only", best.EventsPerSecond/bestFloor.EventsPerSecond, minOfFloor)
	best.checkShape()
	return best, nil
}

// better drains once more and returns the faster of the two, or the wrong one.
func (s *session) better(ctx context.Context, p Params, so *Report) (*Report, error) {
	return faster(so, func() (*Report, error) { return s.one(ctx, p) })
}

// faster is better with a drain of its own.
func faster(so *Report, drain func() (*Report, error)) (*Report, error) {
	r, err := drain()
	if err != nil || so == nil || r.EventsPerSecond > so.EventsPerSecond {
		return r, err
	}
	return so, nil
}

// checkShape adds what holds for every drain.
func (r *Report) checkShape() {
	r.atLeast("HOT share of claims", r.HOTShare, minHOTShare)
	if r.Processes && r.MemoryBytes > 0 {
		r.atMost("publisher memory in MiB", float64(r.MemoryBytes)/(1<<20), maxPublisherMiB)
	}
}

// publishers is judged by exactness alone, which every run demands.
func (s *session) publishers(ctx context.Context) (*Report, error) {
	r, err := s.one(ctx, s.params)
	if r != nil && s.params.Check {
		r.atMost("lost", float64(r.Delivery.Missing), 0)
		r.atMost("duplicates", float64(r.Delivery.Duplicates), 0)
		r.checkShape()
	}
	return r, err
}

// behindHead drains behind rows that cannot be claimed.
func (s *session) behindHead(ctx context.Context) (*Report, error) {
	head := filling{eventType: builtin.TypeOrderCreated, attempts: backingOffAttempts, dueIn: time.Hour, namespace: "default"}
	if s.params.Mode == ModePausedTopic {
		head = filling{eventType: builtin.TypePaymentSettled, namespace: "default"}
	}
	return s.against(ctx, func(r *run) error {
		if err := r.fill(ctx, s.params.Head, head); err != nil {
			return err
		}
		return r.emit(ctx, s.params.Events)
	}, func(report, normal *Report) {
		report.atLeast("rate over one without a head", report.EventsPerSecond/normal.EventsPerSecond, minBehindHead)
	})
}

// history drains in front of published rows.
func (s *session) history(ctx context.Context) (*Report, error) {
	return s.against(ctx, func(r *run) error {
		err := r.fill(ctx, s.params.Head, filling{eventType: builtin.TypeOrderCreated, published: true, namespace: "default"})
		if err != nil {
			return err
		}
		return r.emit(ctx, s.params.Events)
	}, func(report, normal *Report) {
		report.atMost("cost per event over one without history", normal.EventsPerSecond/report.EventsPerSecond, maxHistoryCost)
	})
}

// against measures a drain and, to judge it, the same one without what is in its way.
func (s *session) against(ctx context.Context, prepare func(*run) error, judge func(report, normal *Report)) (*Report, error) {
	var normal *Report
	if s.params.Check {
		plain := s.params
		plain.Mode, plain.Head = ModeDrain, 0
		var err error
		if normal, err = s.one(ctx, plain); err != nil {
			return normal, err
		}
	}
	report, err := s.drainOf(ctx, s.params, prepare)
	if err == nil && normal != nil {
		report.Compared = []*Report{normal}
		judge(report, normal)
	}
	return report, err
}

// backlog drains a large backlog; its head is the backlog itself.
func (s *session) backlog(ctx context.Context) (*Report, error) {
	large := s.params
	large.Events = s.params.Head
	fill := func(n int) func(*run) error {
		return func(r *run) error {
			return r.fill(ctx, n, filling{eventType: builtin.TypeOrderCreated, namespace: measured})
		}
	}
	var small *Report
	if s.params.Check {
		p := s.params
		p.Events, p.Head = min(smallBacklog, large.Events), 0
		for range rounds {
			r, err := s.drainOf(ctx, p, fill(p.Events))
			if err != nil {
				return r, err
			}
			if small == nil || r.EventsPerSecond > small.EventsPerSecond {
				small = r
			}
		}
	}
	report, err := s.drainOf(ctx, large, fill(large.Events))
	if err == nil && small != nil {
		report.Compared = []*Report{small}
		report.atMost(fmt.Sprintf("cost per event over a backlog of %d", small.Events), small.EventsPerSecond/report.EventsPerSecond, maxBacklogCost)
		report.atMost("claim index over its size before", report.ClaimIndexGrowth, maxIndexGrowth)
		report.checkShape()
	}
	return report, err
}
