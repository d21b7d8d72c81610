package dlq

import "context"

// SetOf is the set of a source, as a change would choose it.
func (o *Outbox) SetOf(ctx context.Context, action Action, source Source) (*ChangeSet, error) {
	here, err := o.Identity(ctx)
	return &ChangeSet{
		Action: action, Database: here, params: ChangeParams{Actor: "tester", Note: "because"}, outbox: o,
		open: func() (Source, error) { return source, nil },
	}, err
}

// Run is RunPlan without its verdict.
func (o *Outbox) Run(ctx context.Context, plan Plan, p RunParams) (RunResult, error) {
	return o.run(ctx, plan, p)
}

// AwaitAll is Await without its verdict.
func (o *Outbox) AwaitAll(ctx context.Context, p AwaitParams) (Watched, error) {
	return o.await(ctx, p)
}

// Judge returns what an action would do to targets.
func (o *Outbox) Judge(ctx context.Context, action Action, targets []Target) ([]Outcome, error) {
	return o.judge(ctx, action, targets)
}

// NamedErasable is the source of the events behind ids, for an erasure.
func (o *Outbox) NamedErasable(ids []string, discard bool) Source {
	return &erasable{discard: discard, sources: []Source{o.Named(Erase, ids)}}
}
