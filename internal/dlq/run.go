package dlq

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// ChunkSize is how many targets one transaction of a run changes.
const ChunkSize = 1000

// A Source hands out targets, at most n at a time; none means the end.
type Source interface {
	Next(ctx context.Context, n int) ([]Target, error)
}

// RunParams describes a run: an action on every target of a source.
type RunParams struct {
	Action Action
	Source Source
	Who    Who
	// Detail goes to each audit row of the run, with runId in it the rows can be told to belong together.
	Detail map[string]any
	// DryRun asks what would happen and changes nothing, so neither Rate nor Watch slows it down.
	DryRun bool
	// Force replays what would die again as it is stored; without it a dry run tells which that is.
	Force bool
	// Rate limits the run to so many targets per second; 0 does not.
	Rate float64
	// Watch makes the run go in growing steps and stop when replayed events die again; nil does not.
	Watch *Watch
	// Plan, when set, is checked against: payloads that changed are left alone.
	Plan *PlanHeader
	// OnOutcomes is told what became of each chunk.
	OnOutcomes func([]Outcome) error
}

// did reports whether a target was, or would be, changed.
func (p RunParams) did(o Outcome) bool {
	return o.Outcome == p.Action.Success() || p.DryRun && (o.Outcome == p.Action.Would() || o.Outcome == WouldFail)
}

// RunResult is what a run did.
type RunResult struct {
	// Counts by outcome.
	Counts map[string]int64
	// Chunks is the number of transactions.
	Chunks int
	// Interrupted: the context ended before the source did.
	Interrupted bool
	// Unfinished: an error ended the run after some of it was done.
	Unfinished bool
	// Stopped is why the run stopped by itself; empty when it did not.
	Stopped string
	// Watched is what became of the replayed events, as far as it was watched.
	Watched Watched
}

// Total is the number of targets handled.
func (r RunResult) Total() (n int64) {
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// runWorkers is how many transactions of an unpaced run are under way at a time:
// while one waits for the disk, another computes. A pool of four has one left to read ahead with.
const runWorkers = 3

// Run performs an action on every target of a source, chunk by chunk. An error
// leaves whole chunks behind; the result says what was done until then.
func (s *Store) Run(ctx context.Context, p RunParams) (RunResult, error) {
	if p.DryRun {
		// A look sends nothing that would have to be held back or waited for.
		p.Rate, p.Watch = 0, nil
	}
	r := &run{store: s, params: p, res: RunResult{Counts: map[string]int64{}}}
	var err error
	if p.Rate > 0 || p.Watch != nil || p.DryRun {
		err = r.paced(ctx, r.next)
	} else {
		err = r.unpaced(ctx)
	}
	if ctx.Err() != nil {
		r.res.Interrupted = true
		return r.res, nil
	}
	r.res.Unfinished = err != nil && r.res.Chunks > 0
	return r.res, err
}

// run is a run under way.
type run struct {
	store  *Store
	params RunParams

	mu  sync.Mutex // guards res, and OnOutcomes from being called by two
	res RunResult
}

// unpaced keeps several chunks under way. They hold different rows, so they do not wait for each other.
func (r *run) unpaced(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(runWorkers)
	failed := make(chan struct{})
	var once sync.Once
	var err error
	for step := 0; ctx.Err() == nil && !closed(failed); step++ {
		var targets []Target
		if targets, err = r.params.Source.Next(ctx, ChunkSize); err != nil || len(targets) == 0 {
			break
		}
		g.Go(func() error {
			_, err := r.handle(ctx, step, targets)
			if err != nil {
				once.Do(func() { close(failed) })
			}
			return err
		})
	}
	return cmp.Or(g.Wait(), err)
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// paced does one step after the other, as fast as it is allowed to. do handles up to n targets; none means the end.
func (r *run) paced(ctx context.Context, do func(ctx context.Context, step, n int) ([]Outcome, error)) error {
	p := r.params
	size := func(int) int { return ChunkSize }
	limiter := rate.NewLimiter(rate.Inf, ChunkSize)
	if p.Rate > 0 {
		// A quarter of a second's worth at a time keeps the flow even.
		burst := min(ChunkSize, max(1, int(p.Rate/4)))
		limiter = rate.NewLimiter(rate.Limit(p.Rate), burst)
		size = func(int) int { return burst }
	}
	if p.Watch != nil {
		base := size
		size = func(step int) int { return min(base(step), p.Watch.step(step)) }
	}
	for step := 0; ; step++ {
		n := size(step)
		if err := limiter.WaitN(ctx, n); err != nil {
			return fmt.Errorf("pace the run: %w", err)
		}
		outcomes, err := do(ctx, step, n)
		if err != nil || len(outcomes) == 0 {
			return err
		}
		if p.Watch != nil {
			if stop, err := r.watch(ctx, outcomes); err != nil || stop {
				return err
			}
		}
	}
}

// next takes up to n targets of the source and does them.
func (r *run) next(ctx context.Context, step, n int) ([]Outcome, error) {
	targets, err := r.params.Source.Next(ctx, n)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	return r.handle(ctx, step, targets)
}

// handle does one chunk and reports it. A chunk that is begun is finished: what was changed must also be told.
func (r *run) handle(ctx context.Context, step int, targets []Target) ([]Outcome, error) {
	outcomes, err := r.store.chunk(ctx, r.params, step, targets)
	if err != nil {
		return nil, err
	}
	return outcomes, r.report(outcomes)
}

// report counts what was done and passes it on.
func (r *run) report(outcomes []Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.Chunks++
	for _, o := range outcomes {
		r.res.Counts[o.Outcome]++
	}
	return r.params.OnOutcomes(outcomes)
}

// watch waits for what becomes of the events of one step.
func (r *run) watch(ctx context.Context, outcomes []Outcome) (stop bool, err error) {
	var events []string
	for _, o := range outcomes {
		if o.Outcome == r.params.Action.Success() {
			events = append(events, o.EventID)
		}
	}
	if len(events) == 0 {
		return false, nil
	}
	if err := r.params.Watch.follow(ctx, r.store, events, &r.res.Watched); err != nil {
		return true, err
	}
	r.res.Stopped = r.params.Watch.verdict(r.res.Watched)
	return r.res.Stopped != "", nil
}

// chunk handles one chunk: what a plan says has changed is set aside, the rest
// is acted on, and the outcomes come back in the order of the targets. Each of
// its steps is finished when ctx ends, and takes no longer than chunkTimeout.
func (s *Store) chunk(ctx context.Context, p RunParams, step int, targets []Target) ([]Outcome, error) {
	outcomes := make([]Outcome, len(targets))
	judged, err := s.drift(ctx, p, targets)
	if err != nil {
		return nil, err
	}
	var todo []Target
	var place []int
	for i, t := range targets {
		id := t.ID
		if id == "" {
			id = t.Given
		}
		switch verdict, ok := judged[t.ID]; {
		case t.ID == "":
			outcomes[i] = Outcome{ID: id, Outcome: NotFound}
		case ok:
			outcomes[i] = Outcome{ID: id, EventID: t.EventID, Outcome: verdict}
		default:
			todo, place = append(todo, t), append(place, i)
		}
	}
	if len(todo) == 0 {
		return outcomes, nil
	}
	var done []Outcome
	if p.DryRun {
		finish, cancel := finishing(ctx)
		defer cancel()
		done, err = s.foretell(finish, p, todo)
	} else {
		detail := maps.Clone(p.Detail)
		detail["chunk"] = step + 1
		done, err = s.Act(ctx, p.Action, todo, p.Who, detail)
	}
	if err != nil {
		return nil, err
	}
	for i, o := range done {
		if o.EventID == "" {
			o.EventID = todo[i].EventID
		}
		outcomes[place[i]] = o
	}
	return outcomes, s.creditPlan(ctx, p, outcomes)
}

// foretell returns what a run would do to targets, in the words of a dry run.
func (s *Store) foretell(ctx context.Context, p RunParams, targets []Target) ([]Outcome, error) {
	outcomes, err := s.Preview(ctx, p.Action, targets)
	if err != nil {
		return nil, err
	}
	fails := map[string]bool{}
	if p.Action == Replay && !p.Force {
		ids := make([]string, len(targets))
		for i, t := range targets {
			ids[i] = t.ID
		}
		hopeless, err := collect(ctx, s.db, pgx.RowTo[string], selectHopeless, ids, HopelessReasons())
		if err != nil {
			return nil, fmt.Errorf("preview %s: %w", p.Action, err)
		}
		for _, id := range hopeless {
			fails[id] = true
		}
	}
	for i, o := range outcomes {
		switch {
		case o.Outcome != p.Action.Success():
		case fails[o.ID]:
			outcomes[i].Outcome = WouldFail
		default:
			outcomes[i].Outcome = p.Action.Would()
		}
	}
	return outcomes, nil
}

// Preview returns what an action would do to targets, without doing it.
func (s *Store) Preview(ctx context.Context, action Action, targets []Target) ([]Outcome, error) {
	ids := make([]string, len(targets))
	for i, t := range targets {
		ids[i] = t.ID
	}
	sql, args := previewEntries, []any{ids, string(action), seenAudits(targets)}
	if action.OnEvents() {
		sql, args = previewEvents, []any{ids, string(action), seenTimes(targets)}
	}
	outcomes, err := collect(ctx, s.db, scanOutcome, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("preview %s: %w", action, err)
	}
	return outcomes, nil
}
