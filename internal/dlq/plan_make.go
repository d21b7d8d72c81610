package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// ChunkSize is how many rows one transaction of a run changes.
const ChunkSize = 1000

// The functions of migration 00022.
const (
	callPlanCreate  = `SELECT plan::text, lease::text FROM outbox_plan_create($1, $2, $3, $4::jsonb, $5, $6::jsonb)`
	callPlanAdd     = `SELECT id::text, coalesce(event_id::text, '') AS event_id, outcome FROM outbox_plan_add($1::uuid, $2::uuid, $3::int, $4::uuid[], $5::text[], $6)`
	callPlanReady   = `SELECT outbox_plan_ready($1::uuid, $2::uuid, $3::jsonb)`
	callPlanAbandon = `SELECT outbox_plan_abandon($1::uuid, $2, $3)`
)

// PlanParams is how the plan of a change is made.
type PlanParams struct {
	// AtOnce: whoever makes the plan runs it now. Another one holds a digest of what each row carries,
	// and what has changed when it is run is left alone.
	AtOnce bool
	// MaxRows is the largest set; 0 has no limit.
	MaxRows int64
	// OnBegun is told the plan's id as soon as it exists; nil is not.
	OnBegun func(id string)
	// OnAdded is told how many rows were added, and which were left out because the change could not
	// be made to them now; nil is not.
	OnAdded func(n int64, leftOut []Outcome) error
}

// PlanChange makes the plan of a change without describing its set, which may be large.
func (o *Outbox) PlanChange(ctx context.Context, c ChangeParams, p PlanParams) (Plan, error) {
	set, err := o.aim(ctx, c)
	if err != nil {
		return Plan{}, err
	}
	return set.Plan(ctx, p)
}

// errNothing means that there is nothing in a set that the action could be done to.
var errNothing = errors.New("nothing to do")

// Plan writes the set to the database as a plan, which any process can run, in chunks of one
// transaction each. One that comes to nothing is abandoned, and says why; when all of its rows were
// left out, it is returned with the error that tells so.
func (s *ChangeSet) Plan(ctx context.Context, p PlanParams) (Plan, error) {
	m := making{ChangeSet: s, PlanParams: p}
	if err := m.create(ctx); err != nil {
		return Plan{}, fmt.Errorf("create a plan: %w", err)
	}
	if p.OnBegun != nil {
		p.OnBegun(m.id)
	}
	err := m.fill(ctx)
	if err == nil {
		err = m.finish(ctx)
	}
	if err == nil {
		return s.outbox.readPlan(ctx, m.id)
	}
	plan, abandonErr := m.abandon(ctx, err)
	switch {
	case abandonErr != nil:
		return plan, fmt.Errorf("make plan: %w; abandon plan %s: %w", err, m.id, abandonErr)
	case errors.Is(err, errNothing) && len(plan.LeftOut) > 0:
		return plan, verdict(s.Action, s.filter != nil, plan.LeftOut, 0)
	case errors.Is(err, errNothing):
		return plan, fault.Preconditionf("nothing to %s", s.Action.Verb())
	case ctx.Err() != nil:
		return plan, ctx.Err()
	}
	return plan, err
}

// making is a plan that is being made.
type making struct {
	*ChangeSet
	PlanParams
	id, lease string

	mu    sync.Mutex // guards total, and OnAdded from being called by two
	total int64
}

func (m *making) create(ctx context.Context) error {
	var filter any // no filter is none, not the JSON null
	if m.filter != nil {
		filter = outbox.JSON{Of: m.filter}
	}
	undoes := ""
	if m.params.Undo != nil {
		undoes = m.params.Undo.Run
	}
	args := []any{string(m.Action), m.params.Actor, m.params.Note, filter, undoes, outbox.JSON{Of: m.Database}}
	return m.outbox.change(ctx, callPlanCreate, args, &m.id, &m.lease)
}

// fill adds the chunks, several at a time as they are done when the plan is run.
func (m *making) fill(ctx context.Context) error {
	g, adding := errgroup.WithContext(ctx)
	g.SetLimit(runWorkers)
	chunks := 0
	err := m.each(ctx, func(targets []Target) error {
		chunks++
		chunk := chunks
		g.Go(func() error { return m.add(ctx, chunk, targets) })
		return adding.Err()
	})
	if err := cmp.Or(g.Wait(), err); err != nil || m.total > 0 {
		return err
	}
	return errNothing
}

func (m *making) add(ctx context.Context, chunk int, targets []Target) error {
	var leftOut []Outcome
	err := m.outbox.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		leftOut, err = outbox.Rows[Outcome](ctx, tx, "add rows to the plan", callPlanAdd, m.id, m.lease, chunk,
			idsOf(targets), seenOf(m.Action, targets, m.params.Discard), !m.AtOnce)
		return err
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := int64(len(targets) - len(leftOut))
	if m.total += n; m.MaxRows > 0 && m.total > m.MaxRows {
		return fault.Hint(fault.Preconditionf("the set has more than %s", words.Counted(m.MaxRows, "row")), "narrow the filter, or allow more with ui.max_plan_rows")
	}
	if m.OnAdded == nil {
		return nil
	}
	return m.OnAdded(n, leftOut)
}

func (m *making) finish(ctx context.Context) error {
	effects, err := m.outbox.effects(ctx, m.Action, planEvents, func() (any, error) { return m.id, nil })
	if err != nil {
		return err
	}
	return m.outbox.change(ctx, callPlanReady, []any{m.id, m.lease, outbox.JSON{Of: effects}})
}

// abandon gives the plan up because of an error, and reads it once more.
func (m *making) abandon(ctx context.Context, because error) (Plan, error) {
	why := because.Error()
	if errors.Is(because, errNothing) {
		why = "nothing to " + m.Action.Verb()
	}
	ctx, cancel := finishing(ctx)
	defer cancel()
	if err := m.outbox.change(ctx, callPlanAbandon, []any{m.id, m.params.Actor, why}); err != nil {
		return Plan{}, err
	}
	return m.outbox.readPlan(ctx, m.id)
}

// chunkTimeout bounds one transaction of a change, and each question that belongs to it.
const chunkTimeout = 30 * time.Second

// finishing returns a context for what is finished although ctx has ended, such as a change that
// was sent: it ends after chunkTimeout, so that a database that hangs does not hold the caller for
// ever.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), chunkTimeout)
}

// change calls a function that writes and reads its one row.
func (o *Outbox) change(ctx context.Context, sql string, args []any, into ...any) error {
	return o.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if len(into) == 0 {
			_, err := tx.Exec(ctx, sql, args...)
			return err
		}
		return tx.QueryRow(ctx, sql, args...).Scan(into...)
	})
}

// transact does something in a transaction of its own. It does not stop when ctx ends: a change
// that was sent is waited for, so that the caller can say what happened.
func (o *Outbox) transact(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	ctx, cancel := finishing(ctx)
	defer cancel()
	// A role may default to REPEATABLE READ, where waiting for another operator ends in an error.
	opts := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	return pgx.BeginTxFunc(ctx, o.DB, opts, func(tx pgx.Tx) error { return do(ctx, tx) })
}

// seenOf is what each target must still have: the time an event was published at, or a dead
// letter's audit row; nil: anything. Of an event that is to be erased it says whether it may wait.
// It travels as text: in the simple protocol the driver cannot write an array of times.
func seenOf(action Action, targets []Target, discard bool) []*string {
	seen := make([]*string, len(targets))
	for i, t := range targets {
		switch {
		case action == Republish && t.At != nil:
			seen[i] = new(instant(*t.At))
		case action == Erase && discard:
			seen[i] = new("discard")
		case !action.OnEvents() && t.AuditID != 0:
			seen[i] = new(fmt.Sprint(t.AuditID))
		}
	}
	return seen
}
