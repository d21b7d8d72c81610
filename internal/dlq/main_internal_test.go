package dlq

import (
	"context"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// SetOf is the set of a source, as a change would choose it; discard is that of an erasure.
func (o *Outbox) SetOf(ctx context.Context, action Action, source Source, discard bool) (*ChangeSet, error) {
	here, err := o.Identity(ctx)
	return &ChangeSet{
		Action: action, Database: here, params: ChangeParams{Actor: "tester", Note: "because", Discard: discard}, outbox: o,
		open: func(context.Context) (Source, error) { return source, nil },
	}, err
}

// Run is RunPlan without its verdict.
func (o *Outbox) Run(ctx context.Context, plan Plan, p RunParams) (RunResult, error) {
	return o.run(ctx, plan, p)
}

// AwaitAll is Await without its verdict.
func (o *Outbox) AwaitAll(ctx context.Context, p AwaitParams) (Fates, error) {
	return o.await(ctx, p)
}

// Judge returns what an action would do to targets.
func (o *Outbox) Judge(ctx context.Context, action Action, targets []Target) ([]Outcome, error) {
	return o.judge(ctx, action, targets, false)
}

// Erasable is the source of an erasure by a filter.
func (o *Outbox) Erasable(ctx context.Context, f Filter) (Source, error) { return o.erasable(ctx, f) }

// Scanned is the source of the rows of a scan.
func Scanned[T any](ctx context.Context, scan *outbox.Scan[T]) Source { return scanned(ctx, scan) }
