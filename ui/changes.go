package ui

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/ratelimit"
)

const (
	// freezeWait is how long a request waits for its set to be frozen: a small one is, so its page shows all of it at once.
	freezeWait = 500 * time.Millisecond
	// slotWait is how long a request waits for the set that is being frozen before it.
	slotWait = 2 * time.Second
	// runsPerMinute limits how many runs one identity starts.
	runsPerMinute = 10
	// DefaultMaxPlanRows is the largest set that is frozen.
	DefaultMaxPlanRows = 1_000_000
)

// changes freezes sets and runs plans for operators: in the process, not in their requests, so that a closed tab changes
// nothing.
type changes struct {
	outbox  func() *operate.Outbox
	maxRows int64
	log     func(path string, err error)

	// slot is held by the one set that is being frozen.
	slot    chan struct{}
	working context.Context //nolint:containedctx // it is the life of the jobs, which outlive their requests
	stop    context.CancelFunc
	jobs    sync.WaitGroup
	// begun limits the runs that each identity begins.
	begun *ratelimit.PerName
}

func newChanges(cfg Config, box func() *operate.Outbox) *changes {
	c := &changes{outbox: box, maxRows: cfg.MaxPlanRows, log: cfg.Log, slot: make(chan struct{}, 1), begun: ratelimit.New(runsPerMinute)}
	c.working, c.stop = context.WithCancel(context.Background())
	return c
}

// end finishes the rows that are being changed, marks what is left as interrupted and waits for that.
func (c *changes) end() {
	c.stop()
	c.jobs.Wait()
}

func busy(format string, args ...any) error {
	return statusError{http.StatusTooManyRequests, fault.Preconditionf(format, args...)}
}

// freeze makes a plan. It returns its id once it exists; the set may still be growing.
func (c *changes) freeze(ctx context.Context, p operate.ChangeParams) (id string, err error) {
	timer := time.NewTimer(slotWait)
	defer timer.Stop()
	select {
	case c.slot <- struct{}{}:
	case <-timer.C:
		return "", busy("another set is being frozen: try again in a moment")
	case <-ctx.Done():
		return "", ctx.Err()
	}
	freezing, err := c.outbox().BeginPlan(ctx, operate.BeginPlanParams{ChangeParams: p, MaxRows: c.maxRows})
	if err != nil {
		<-c.slot
		return "", err
	}
	done := make(chan struct{})
	c.jobs.Go(func() {
		defer close(done)
		defer func() { <-c.slot }()
		if _, err := freezing.Finish(c.working); err != nil {
			c.log("/plans/"+freezing.ID, err)
		}
	})
	wait := time.NewTimer(freezeWait)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	case <-ctx.Done():
	}
	return freezing.ID, nil
}

// run begins or resumes a plan and returns when that has happened, or why it has not.
func (c *changes) run(p operate.RunPlanParams) error {
	if !c.begun.Of(p.Runner).Allow() {
		return busy("%s has started %d runs within a minute: wait a little", p.Runner, runsPerMinute)
	}
	begun := make(chan error, 2)
	p.OnBegun = func() { begun <- nil }
	p.OnOutcomes = func([]dlq.Outcome) error { return nil } // the database counts them
	c.jobs.Go(func() {
		_, err := c.outbox().RunPlan(c.working, p)
		if kind, _ := fault.KindOf(err); err != nil && kind != fault.Partial {
			c.log("/runs/"+p.ID, err)
		}
		begun <- err
	})
	return <-begun
}
