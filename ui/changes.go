package ui

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
)

const (
	// planWait is how long a request waits for its plan: a small one is whole by then.
	planWait = 500 * time.Millisecond
	// slotWait is how long a request waits for the plan that is being made before it.
	slotWait = 2 * time.Second
	// DefaultMaxPlanRows is the largest set that a plan is made of.
	DefaultMaxPlanRows = 1_000_000
)

// changes makes and runs plans for operators: in the process, not in their requests, so that a
// closed tab changes nothing.
type changes struct {
	cfg    Config
	outbox func() *dlq.Outbox

	// slot is held by the one plan that is being made.
	slot    chan struct{}
	working context.Context // it is the life of the jobs, which outlive their requests
	stop    context.CancelFunc
	jobs    sync.WaitGroup
}

func newChanges(cfg Config, box func() *dlq.Outbox) *changes {
	c := &changes{cfg: cfg, outbox: box, slot: make(chan struct{}, 1)}
	c.working, c.stop = context.WithCancel(context.Background())
	return c
}

// end finishes the rows that are being changed and marks what is left as interrupted.
func (c *changes) end() {
	c.stop()
	c.jobs.Wait()
}

func busy(format string, args ...any) error {
	return statusError{http.StatusTooManyRequests, fault.Preconditionf(format, args...)}
}

// plan makes a plan. It returns its id once it exists; the set may still be growing.
func (c *changes) plan(ctx context.Context, p dlq.ChangeParams) (id string, err error) {
	if err := takePlace(ctx, c.slot, slotWait, "another plan is being made: try again in a moment"); err != nil {
		return "", err
	}
	begun, done := make(chan string, 1), make(chan error, 1)
	c.jobs.Go(func() {
		defer func() { <-c.slot }()
		plan, err := c.outbox().PlanChange(c.working, p, dlq.PlanParams{MaxRows: c.cfg.MaxPlanRows, OnBegun: func(id string) { begun <- id }})
		if err != nil && plan.ID != "" {
			c.cfg.Log("/plans/"+plan.ID, err)
		}
		done <- err
	})
	select {
	case id = <-begun:
	case err := <-done:
		if len(begun) == 0 {
			return "", err
		}
		return <-begun, nil
	}
	wait := time.NewTimer(planWait)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	case <-ctx.Done():
	}
	return id, nil
}

// run begins or resumes a plan and returns when that has happened, or why it has not.
func (c *changes) run(p dlq.RunParams) error {
	begun := make(chan error, 2)
	p.OnBegun = func() { begun <- nil }
	p.OnOutcomes = func([]dlq.Outcome) error { return nil } // the database counts them
	c.jobs.Go(func() {
		_, err := c.outbox().RunPlan(c.working, p)
		if kind, _ := fault.KindOf(err); err != nil && kind != fault.Partial {
			c.cfg.Log("/plans/"+p.ID, err)
		}
		begun <- err
	})
	return <-begun
}
