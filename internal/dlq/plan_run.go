package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

const (
	// beatEvery is how often a run renews its lease of 30 s and asks whether it is to stop.
	beatEvery = 2 * time.Second
	// runWorkers is how many transactions of an unpaced run are under way at a time: while one waits
	// for the disk, another computes. A pool of four has one left to keep the lease with.
	runWorkers = 3
)

const (
	callPlanBegin = `SELECT outbox_plan_begin($1::uuid, $2, $3, $4::jsonb)::text`
	callPlanStep  = `SELECT id::text, coalesce(event_id::text, '') AS event_id, outcome FROM outbox_plan_step($1::uuid, $2::uuid, $3::int, $4, $5::jsonb)`
	callPlanBeat  = `SELECT outbox_plan_beat($1::uuid, $2::uuid, $3::jsonb)`
	callPlanEnd   = `SELECT outbox_plan_end($1::uuid, $2::uuid, $3, $4, $5::jsonb)`
	callPlanStop  = `SELECT outbox_plan_stop($1::uuid, $2)`
)

// RunParams describes how a plan is run.
type RunParams struct {
	// ID is the plan's, or the beginning of it.
	ID string
	// Runner goes to the audit rows, beside the plan's author.
	Runner string
	// Note is why it is run, when the plan does not say.
	Note string
	// Detail goes to each audit row too.
	Detail map[string]any
	// Rate limits the run to so many rows per second; 0 does not.
	Rate float64
	// Watch makes the run go in growing steps and stop when replayed events die again; nil does not.
	Watch *Watch
	// LeftOut is what the plan left out, for a caller who has just made it: it counts with what was
	// not changed.
	LeftOut map[string]int64
	// OnBegun is told that the run has begun and no other can; nil is not.
	OnBegun func()
	// OnOutcomes is told what became of each step; not by two steps at a time.
	OnOutcomes func([]Outcome) error
}

// RunResult is what one runner did of a plan, or what a dry run says that it would do.
type RunResult struct {
	// Counts by outcome.
	Counts map[string]int64
	// State is the one in which the plan was left.
	State string
	// Interrupted: the context ended before the set did.
	Interrupted bool
	// Unfinished: an error ended the run after some of it was done.
	Unfinished bool
	// Stopped is why the run stopped by itself; empty when it did not.
	Stopped string
	// Watched is what became of the replayed events, as far as it was watched.
	Watched Watched
}

// Total is the number of rows handled.
func (r RunResult) Total() (n int64) {
	for _, c := range r.Counts {
		n += c
	}
	return n
}

var errAskedToStop = errors.New("asked to stop")

// run is a run under way.
type run struct {
	outbox *Outbox
	plan   Plan
	params RunParams
	lease  string

	mu  sync.Mutex // guards res, and OnOutcomes from being called by two
	res RunResult
}

// run does what is left of a plan, step by step, each in one transaction that also marks it as
// done. It holds the plan's lease meanwhile, so that no other process does. When ctx ends, the
// steps it is at are finished.
func (o *Outbox) run(ctx context.Context, plan Plan, p RunParams) (RunResult, error) {
	r := &run{outbox: o, plan: plan, params: p, res: RunResult{Counts: map[string]int64{}}}
	if err := r.begin(ctx); err != nil {
		return RunResult{}, fmt.Errorf("begin the run: %w", err)
	}
	if p.OnBegun != nil {
		p.OnBegun()
	}
	running, stop := context.WithCancelCause(ctx)
	beating := make(chan struct{})
	go func() { defer close(beating); r.beat(running, stop) }()
	err := r.work(running)
	cause := context.Cause(running)
	stop(nil)
	<-beating
	switch {
	case ctx.Err() != nil:
		r.res.Interrupted, err = true, nil
	case errors.Is(cause, errAskedToStop):
		err = nil
	case cause != nil:
		err = cause
	}
	r.res.Unfinished = err != nil && len(r.res.Counts) > 0
	endErr := r.end(ctx, err)
	if plan.Action == Erase && r.res.Counts[Erased] > 0 {
		endErr = errors.Join(endErr, o.forgetSamples(ctx))
	}
	for outcome, n := range p.LeftOut {
		r.res.Counts[outcome] += n
	}
	return r.res, errors.Join(err, endErr)
}

func (r *run) begin(ctx context.Context) error {
	options := map[string]any{}
	if r.params.Rate > 0 {
		options["rate"] = r.params.Rate
	}
	if w := r.params.Watch; w != nil {
		options["maxDead"], options["watchSeconds"] = w.MaxDead, w.For.Seconds()
	}
	if r.params.Detail == nil {
		r.params.Detail = map[string]any{}
	}
	args := []any{r.plan.ID, r.params.Runner, r.params.Note, outbox.JSON{Of: options}}
	return r.outbox.change(ctx, callPlanBegin, args, &r.lease)
}

// work does what is left of the plan. Without a pace it keeps several chunks under way: they hold
// different rows, so they do not wait for each other.
func (r *run) work(ctx context.Context) error {
	p, size, workers := r.params, ChunkSize, int64(1)
	limiter := rate.NewLimiter(rate.Inf, size)
	switch {
	case p.Rate > 0:
		// A quarter of a second's worth at a time keeps the flow even.
		size = min(ChunkSize, max(1, int(p.Rate/4)))
		limiter = rate.NewLimiter(rate.Limit(p.Rate), size)
	case p.Watch == nil:
		workers = min(runWorkers, max(1, (r.plan.Total-r.plan.Done+ChunkSize-1)/ChunkSize))
	}
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error {
			for step := 0; ; step++ {
				n := size
				if p.Watch != nil {
					n = min(n, rampStep(step))
				}
				if err := limiter.WaitN(ctx, n); err != nil {
					return fmt.Errorf("pace the run: %w", err)
				}
				outcomes, err := r.step(ctx, n)
				if err != nil || len(outcomes) == 0 {
					return err
				}
				if p.Watch != nil {
					if stop, err := r.watch(ctx, outcomes); err != nil || stop {
						return err
					}
				}
			}
		})
	}
	return g.Wait()
}

// step does up to n more rows of the plan and tells what became of them. A step that is begun is
// finished: what was changed must also be told.
func (r *run) step(ctx context.Context, n int) (outcomes []Outcome, err error) {
	err = r.outbox.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		outcomes, err = outbox.Rows[Outcome](ctx, tx, string(r.plan.Action), callPlanStep,
			r.plan.ID, r.lease, n, r.params.Runner, outbox.JSON{Of: r.params.Detail})
		failpoint.Hit(failpoint.Replaying)
		return err
	})
	if err != nil || len(outcomes) == 0 {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range outcomes {
		r.res.Counts[o.Outcome]++
	}
	return outcomes, r.params.OnOutcomes(outcomes)
}

// watch waits for what becomes of the events of one step.
func (r *run) watch(ctx context.Context, outcomes []Outcome) (stop bool, err error) {
	success := r.plan.Action.Success()
	sent := slices.DeleteFunc(outcomes, func(o Outcome) bool { return o.Outcome != success })
	if len(sent) == 0 {
		return false, nil
	}
	r.res.Watched.begin(int64(len(sent)))
	if err := r.tell(ctx); err != nil {
		return true, err
	}
	w := r.params.Watch
	fates, err := r.outbox.await(ctx, AwaitParams{
		Sent: sent, Timeout: w.For, Every: min(w.Every, w.For), OnSettled: func(Outcome) error { return nil },
	})
	r.res.Watched.settle(fates)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return true, err
	}
	r.res.Stopped = w.verdict(r.res.Watched.Fates)
	return r.res.Stopped != "", r.tell(ctx)
}

// tell writes down what became of the steps so far, for those who look at the plan meanwhile.
// Whether it is to stop is asked elsewhere.
func (r *run) tell(ctx context.Context) error {
	return r.outbox.change(ctx, callPlanBeat, []any{r.plan.ID, r.lease, outbox.JSON{Of: r.res.Watched}}, new(bool))
}

// beat keeps the lease until ctx ends, and ends the run when an operator asks for it or another
// runner took over.
func (r *run) beat(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var asked bool
		err := r.outbox.change(ctx, callPlanBeat, []any{r.plan.ID, r.lease, nil}, &asked)
		switch {
		case asked:
			stop(errAskedToStop)
			return
		case leaseLost(err):
			stop(err)
			return
		}
		// Another error may pass; if it does not, the next step reports it.
	}
}

func (r *run) end(ctx context.Context, failed error) error {
	why := r.res.Stopped
	if failed != nil {
		why = failed.Error()
	}
	args := []any{r.plan.ID, r.lease, r.res.Interrupted || failed != nil, why, outbox.JSON{Of: r.res.Watched}}
	err := r.outbox.change(ctx, callPlanEnd, args, &r.res.State)
	if leaseLost(err) && failed != nil {
		return nil // it is the error that ended the run
	}
	return err
}
