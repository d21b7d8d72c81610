package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// beatEvery is how often a run renews its lease of 30 s and asks whether it is to stop.
const beatEvery = 2 * time.Second

const (
	callRunBegin = `SELECT outbox_run_begin($1::uuid, $2, $3, $4::jsonb)::text`
	callRunStep  = `SELECT id::text, coalesce(event_id::text, ''), outcome FROM outbox_run_step($1::uuid, $2::uuid, $3::int, $4, $5::jsonb)`
	callRunBeat  = `SELECT outbox_run_beat($1::uuid, $2::uuid)`
	callRunEnd   = `SELECT outbox_run_end($1::uuid, $2::uuid, $3, $4, $5::jsonb)`
	callRunStop  = `SELECT outbox_run_stop($1::uuid, $2)`
)

// The states of a frozen plan while a process works on it, and those that its run can end in.
const (
	PlanFreezing   = "freezing"
	RunRunning     = "running"
	RunDone        = "done"
	RunStopped     = "stopped"
	RunInterrupted = "interrupted"
)

// FrozenRunParams describes the run of a plan in the database.
type FrozenRunParams struct {
	Plan   string
	Action Action
	Runner string
	// Note is why it is run, when the plan does not say.
	Note string
	// Detail goes to each audit row.
	Detail map[string]any
	// Rate limits the run to so many rows per second; 0 does not.
	Rate float64
	// Watch makes the run go in growing steps and stop when replayed events die again; nil does not.
	Watch *Watch
	// OnBegun is told that the lease is held; nil is not.
	OnBegun func()
	// OnOutcomes is told what became of each step.
	OnOutcomes func([]Outcome) error
}

// FrozenRunResult is what one runner did of a plan, and the state in which it left the plan.
type FrozenRunResult struct {
	RunResult
	State string
}

var errAskedToStop = errors.New("asked to stop")

// RunPlan does what is left of a plan, step by step, each in one transaction that also marks it as done. It holds the
// plan's lease meanwhile, so that no other process does. When ctx ends, the step it is at is finished.
func (s *Store) RunPlan(ctx context.Context, p FrozenRunParams) (FrozenRunResult, error) {
	options := map[string]any{}
	if p.Rate > 0 {
		options["rate"] = p.Rate
	}
	if p.Watch != nil {
		options["maxDead"], options["watchSeconds"] = p.Watch.MaxDead, p.Watch.For.Seconds()
	}
	doc, err := json.Marshal(options)
	if err != nil {
		return FrozenRunResult{}, fmt.Errorf("encode the run's options: %w", err)
	}
	var lease string
	if err := s.change(ctx, callRunBegin, []any{p.Plan, p.Runner, p.Note, string(doc)}, &lease); err != nil {
		return FrozenRunResult{}, fmt.Errorf("begin the run: %w", err)
	}
	if p.OnBegun != nil {
		p.OnBegun()
	}
	r := &run{
		store: s, res: RunResult{Counts: map[string]int64{}},
		params: RunParams{Action: p.Action, Rate: p.Rate, Watch: p.Watch, OnOutcomes: p.OnOutcomes},
	}
	running, stop := context.WithCancelCause(ctx)
	beating := make(chan struct{})
	go func() { defer close(beating); s.beat(running, p.Plan, lease, stop) }()
	err = r.paced(running, func(ctx context.Context, _, n int) ([]Outcome, error) { return r.step(ctx, p, lease, n) })
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
	r.res.Unfinished = err != nil && r.res.Chunks > 0
	state, endErr := s.endRun(ctx, p.Plan, lease, r.res, err)
	return FrozenRunResult{RunResult: r.res, State: state}, errors.Join(err, endErr)
}

// step does the next rows of a plan. A step that is begun is finished.
func (r *run) step(ctx context.Context, p FrozenRunParams, lease string, n int) ([]Outcome, error) {
	ctx, cancel := finishing(ctx)
	defer cancel()
	if p.Detail == nil {
		p.Detail = map[string]any{}
	}
	detail, err := json.Marshal(p.Detail)
	if err != nil {
		return nil, fmt.Errorf("encode audit detail: %w", err)
	}
	var outcomes []Outcome
	opts := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	err = pgx.BeginTxFunc(ctx, r.store.db, opts, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, callRunStep, p.Plan, lease, n, p.Runner, string(detail))
		if err != nil {
			return err
		}
		outcomes, err = pgx.CollectRows(rows, scanOutcome)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Action, err)
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	return outcomes, r.report(outcomes)
}

// beat keeps the lease until ctx ends, and ends the run when an operator asks for it or another runner took over.
func (s *Store) beat(ctx context.Context, plan, lease string, stop context.CancelCauseFunc) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var asked bool
		err := s.change(ctx, callRunBeat, []any{plan, lease}, &asked)
		switch {
		case asked:
			stop(errAskedToStop)
			return
		case LeaseLost(err):
			stop(err)
			return
		}
		// Another error may pass; if it does not, the next step reports it.
	}
}

func (s *Store) endRun(ctx context.Context, plan, lease string, res RunResult, failed error) (state string, err error) {
	why := res.Stopped
	if failed != nil {
		why = failed.Error()
	}
	watched, err := json.Marshal(res.Watched)
	if err != nil {
		return "", fmt.Errorf("encode what was watched: %w", err)
	}
	err = s.change(ctx, callRunEnd, []any{plan, lease, res.Interrupted || failed != nil, why, string(watched)}, &state)
	if LeaseLost(err) && failed != nil {
		return "", nil // it is the error that ended the run
	}
	return state, err
}

// StopRun asks the runner of a plan to stop.
func (s *Store) StopRun(ctx context.Context, plan, actor string) error {
	return s.change(ctx, callRunStop, []any{plan, actor})
}
