package dlq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// ChunkSize is how many rows one transaction of a run changes.
const ChunkSize = 1000

// The functions of migration 00022.
const (
	callPlanCreate  = `SELECT plan::text, lease::text FROM outbox_plan_create($1, $2, $3, $4::jsonb, $5, $6::jsonb)`
	callPlanAdd     = `SELECT id::text, coalesce(event_id::text, ''), outcome FROM outbox_plan_add($1::uuid, $2::uuid, $3::int, $4::uuid[], $5::text[], $6)`
	callPlanReady   = `SELECT outbox_plan_ready($1::uuid, $2::uuid, $3::jsonb)`
	callPlanAbandon = `SELECT outbox_plan_abandon($1::uuid, $2, $3)`
)

// A Source hands out targets, at most n at a time; none means the end.
type Source interface {
	Next(ctx context.Context, n int) ([]Target, error)
}

// MakeParams is a plan to be made.
type MakeParams struct {
	Action       Action
	Author, Note string
	Database     Identity
	// Filter is how the set was chosen, for the reader and the audit. It is nil where ids did.
	Filter any
	// Undoes is the run of the audit trail that the plan takes back.
	Undoes string
	Source Source
	// AtOnce: whoever makes the plan runs it now, so it needs no digests of what the rows carry.
	AtOnce bool
	// OnBegun is told the plan's id as soon as it exists; nil is not.
	OnBegun func(id string)
	// OnAdded is told how many rows were added, and which were left out because the action could not be done to them now.
	// An error gives the plan up.
	OnAdded func(n int64, leftOut []Outcome) error
}

// ErrNothing means that there is nothing in a set that the action could be done to.
var ErrNothing = errors.New("nothing to do")

// MakePlan writes a plan to the database, in chunks of one transaction each. One that is not finished is abandoned, and so is
// one in which there is nothing: then the error is ErrNothing, and the plan tells what was left out.
func (s *Store) MakePlan(ctx context.Context, p MakeParams) (Plan, error) {
	filter, err := json.Marshal(p.Filter)
	if err != nil {
		return Plan{}, fmt.Errorf("encode the filter: %w", err)
	}
	database, err := json.Marshal(p.Database)
	if err != nil {
		return Plan{}, fmt.Errorf("encode the database's identity: %w", err)
	}
	var given any // no filter is none, not the JSON null
	if p.Filter != nil {
		given = string(filter)
	}
	var id, lease string
	args := []any{string(p.Action), p.Author, p.Note, given, p.Undoes, string(database)}
	if err := s.change(ctx, callPlanCreate, args, &id, &lease); err != nil {
		return Plan{}, fmt.Errorf("create a plan: %w", err)
	}
	if p.OnBegun != nil {
		p.OnBegun(id)
	}
	total, err := s.fillPlan(ctx, p, id, lease)
	if err == nil && total == 0 {
		err = ErrNothing
	}
	if err == nil {
		err = s.finishPlan(ctx, p.Action, id, lease)
	}
	if err == nil {
		return s.Plan(ctx, id)
	}
	why := err.Error()
	if errors.Is(err, ErrNothing) {
		why = "nothing to " + p.Action.Verb()
	}
	ctx, cancel := finishing(ctx)
	defer cancel()
	if undo := s.AbandonPlan(ctx, id, p.Author, why); undo != nil {
		return Plan{}, fmt.Errorf("make plan: %w; abandon plan %s: %w", err, id, undo)
	}
	plan, readErr := s.Plan(ctx, id)
	return plan, errors.Join(err, readErr)
}

// fillPlan adds the chunks, several at a time as they are done when the plan is run.
func (s *Store) fillPlan(ctx context.Context, p MakeParams, id, lease string) (total int64, err error) {
	var mu sync.Mutex // guards total, and OnAdded from being called by two
	g, adding := errgroup.WithContext(ctx)
	g.SetLimit(runWorkers)
	for chunk := 1; adding.Err() == nil; chunk++ {
		var targets []Target
		if targets, err = p.Source.Next(ctx, ChunkSize); err != nil || len(targets) == 0 {
			break
		}
		g.Go(func() error {
			var leftOut []Outcome
			err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				leftOut, err = collect(ctx, tx, scanOutcome, callPlanAdd, id, lease, chunk, idsOf(targets), seenOf(p.Action, targets), !p.AtOnce)
				return err
			})
			if err != nil {
				return fmt.Errorf("add rows to the plan: %w", err)
			}
			mu.Lock()
			defer mu.Unlock()
			n := int64(len(targets) - len(leftOut))
			total += n
			return p.OnAdded(n, leftOut)
		})
	}
	return total, cmp.Or(g.Wait(), err)
}

func (s *Store) finishPlan(ctx context.Context, action Action, id, lease string) error {
	effects, err := s.effects(ctx, action, planEvents, func() (any, error) { return id, nil })
	if err != nil {
		return err
	}
	beside, err := json.Marshal(effects)
	if err != nil {
		return fmt.Errorf("encode the effects: %w", err)
	}
	return s.change(ctx, callPlanReady, []any{id, lease, string(beside)})
}

// AbandonPlan gives up a plan that was not started. Without a reason it says who did.
func (s *Store) AbandonPlan(ctx context.Context, id, actor, why string) error {
	return s.change(ctx, callPlanAbandon, []any{id, actor, why})
}

// chunkTimeout bounds one transaction of a change, and each question that belongs to it.
const chunkTimeout = 30 * time.Second

// finishing returns a context for what is finished although ctx has ended, such as a change that was sent: it ends after
// chunkTimeout, so that a database that hangs does not hold the caller for ever.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), chunkTimeout)
}

// change calls a function that writes and reads its one row.
func (s *Store) change(ctx context.Context, sql string, args []any, into ...any) error {
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := collect(ctx, tx, func(row pgx.CollectableRow) (struct{}, error) {
			if len(into) == 0 {
				return struct{}{}, nil
			}
			return struct{}{}, row.Scan(into...)
		}, sql, args...)
		return err
	})
}

// transact does something in a transaction of its own. It does not stop when ctx ends: a change that was sent is waited for,
// so that the caller can say what happened.
func (s *Store) transact(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	ctx, cancel := finishing(ctx)
	defer cancel()
	// A role may default to REPEATABLE READ, where waiting for another operator ends in an error.
	opts := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	return pgx.BeginTxFunc(ctx, s.db, opts, func(tx pgx.Tx) error { return do(ctx, tx) })
}

func idsOf(targets []Target) []string {
	ids := make([]string, len(targets))
	for i, t := range targets {
		if ids[i] = t.ID; t.ID == "" {
			ids[i] = t.Given
		}
	}
	return ids
}

// seenOf is what each target must still have: the time an event was published at, or a dead letter's audit row; nil: anything.
// Of an event that is to be erased it says whether it may wait.
// It travels as text: in the simple protocol the driver cannot write an array of times.
func seenOf(action Action, targets []Target) []*string {
	seen := make([]*string, len(targets))
	for i, t := range targets {
		switch {
		case action == Republish && !t.At.IsZero():
			at := instant(t.At)
			seen[i] = &at
		case action == Erase && t.Discard:
			discard := "discard"
			seen[i] = &discard
		case !action.OnEvents() && t.AuditID != 0:
			id := fmt.Sprint(t.AuditID)
			seen[i] = &id
		}
	}
	return seen
}
