package cleanup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/common/model"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// MinAuditAge is how long audit rows are kept whatever is asked: who is audited must not wipe out
// yesterday. The database holds the same rule.
const MinAuditAge = 7 * 24 * time.Hour

// ErrBusy means that another cleaner is at work on the same database.
var ErrBusy = errors.New("another cleanup is running")

// Params describes what to remove and how gently.
type Params struct {
	// OlderThan is the age, since publication, from which events go, and what consumers failed on
	// longer ago than that and is gone. Nil: no events.
	OlderThan *time.Duration
	// DLQOlderThan is the age, since they were replayed or discarded, from which dead letters go. Nil:
	// none.
	DLQOlderThan *time.Duration
	// InboxOlderThan is the age, since the effect, from which inbox rows go. Nil: none. It must be
	// longer than any event may still be delivered again: the row is what keeps the effect single when
	// Redis has forgotten.
	InboxOlderThan *time.Duration
	// AuditOlderThan is the age from which audit rows go, at least MinAuditAge. Nil: none.
	AuditOlderThan *time.Duration
	// IdempotencyTTL is how long Redis remembers an event; inbox rows must stay at least as long.
	IdempotencyTTL time.Duration
	// MaxRows ends the run early. Zero: no limit.
	MaxRows int64
	// Pause is the rest between two batches.
	Pause time.Duration
	// MaxReplicaLag is how far a replica may fall behind before the run waits for it.
	MaxReplicaLag time.Duration
	// Actor and Note go into the run's audit row.
	Actor, Note string
	// OnBatch, where set, is told about every batch.
	OnBatch func(Batch)
}

// A Batch is one transaction's work.
type Batch struct {
	Deleted int64
	Took    time.Duration
}

// Result is what a run removed.
type Result struct {
	Events     int64         `json:"events"`
	DLQ        int64         `json:"dlq"`
	DeadEvents int64         `json:"deadEvents"`
	Inbox      int64         `json:"inbox"`
	Failures   int64         `json:"failures"`
	Audit      int64         `json:"audit"`
	Batches    int           `json:"batches"`
	Longest    time.Duration `json:"-"`
}

// Cleaner removes old rows.
type Cleaner struct{ pool *pgxpool.Pool }

// New makes a Cleaner.
func New(pool *pgxpool.Pool) *Cleaner { return &Cleaner{pool} }

// Run removes batch by batch until nothing old is left. What it returns was removed, also when it
// returns an error.
func (c *Cleaner) Run(ctx context.Context, p Params) (Result, error) {
	if err := p.Validate(); err != nil {
		return Result{}, err
	}
	result, err := c.run(ctx, p)
	return result, unfinished(result, err)
}

func (c *Cleaner) run(ctx context.Context, p Params) (Result, error) {
	turn, err := c.takeTurn(ctx)
	if err != nil {
		return Result{}, err
	}
	defer turn.end(ctx)
	run := &run{Cleaner: c, Params: p, turn: turn, id: uuid.NewString()}
	for _, k := range p.kinds(&run.result, &Plan{}) {
		if k.age == nil {
			continue
		}
		if err := run.remove(ctx, k); err != nil {
			return run.result, fmt.Errorf("clean up %s: %w", k.words, err)
		}
	}
	if err := run.history(ctx); err != nil {
		return run.result, fmt.Errorf("clean up the history: %w", err)
	}
	return run.result, nil
}

// history removes figures that are too old, whatever else is asked for: how long they are kept is
// not chosen.
func (r *run) history(ctx context.Context) error {
	for {
		var deleted int64
		if err := r.pool.QueryRow(ctx, cleanupHistory, historyBatch, r.Actor).Scan(&deleted); err != nil || deleted < historyBatch {
			return err
		}
		if err := r.rest(ctx); err != nil {
			return err
		}
	}
}

// Rows is how many a run removed on its own account: dead events go with their dead letters.
func (r Result) Rows() int64 { return r.Events + r.DLQ + r.Inbox + r.Failures + r.Audit }

// run is the state of one Run.
type run struct {
	*Cleaner
	Params
	turn   *turn
	id     string
	audit  *int64 // the run's audit row, once there is one
	size   int
	result Result
}

// remove removes the oldest of a kind first and starts each batch where the last one ended.
func (r *run) remove(ctx context.Context, k kind) error {
	cutoff, err := r.cutoff(ctx, *k.age)
	if err != nil {
		return err
	}
	r.size = firstBatch
	var from *time.Time
	return r.batches(ctx, func(ctx context.Context, limit int) (int64, error) {
		var deleted, events int64
		var last *time.Time
		var taken bool
		err := r.pool.QueryRow(ctx, cleanupBatch, k.name, cutoff, from, limit, r.Actor, r.Note, r.detail(),
			r.audit).Scan(&r.audit, &deleted, &last, &events, &taken)
		if taken {
			return 0, busy(ctx, r.pool, batchKey)
		}
		if last != nil {
			from = last
		}
		*k.removed += deleted
		r.result.DeadEvents += events
		return deleted, err
	})
}

// batches calls one batch after the other until one comes back less than full.
func (r *run) batches(ctx context.Context, batch func(ctx context.Context, limit int) (int64,
	error)) error {
	for {
		limit := r.limit()
		if limit == 0 {
			return nil
		}
		if err := r.turn.check(ctx); err != nil {
			return err
		}
		start := time.Now()
		deleted, err := batch(ctx, limit)
		if err != nil {
			return err
		}
		failpoint.Hit(failpoint.Cleaning)
		r.note(Batch{Deleted: deleted, Took: time.Since(start)}, limit)
		if deleted < int64(limit) {
			return nil
		}
		if err := r.rest(ctx); err != nil {
			return err
		}
	}
}

// limit is the size of the next batch; zero when MaxRows is reached.
func (r *run) limit() int {
	if r.MaxRows == 0 {
		return r.size
	}
	return int(min(int64(r.size), r.MaxRows-r.result.Rows()))
}

// cutoff is taken once from the database's clock, so that a run has an end and a wrong clock
// elsewhere cannot delete too much.
func (r *run) cutoff(ctx context.Context, age time.Duration) (time.Time, error) {
	var at time.Time
	err := r.pool.QueryRow(ctx, cutoff, age).Scan(&at)
	return at, err
}

func (r *run) detail() string {
	detail, _ := json.Marshal(map[string]string{"runId": r.id})
	return string(detail)
}

// kind is one kind of rows that may be removed.
type kind struct {
	words   string
	age     *time.Duration // nil: they stay
	name    string         // what outbox_cleanup calls it
	count   string
	removed *int64
	counts  *[]Count
}

// kinds lists them in the order in which they go.
func (p Params) kinds(r *Result, plan *Plan) []kind {
	return []kind{
		{"published events", p.OlderThan, "events", countEvents, &r.Events, &plan.Events},
		{"consumers' failures", p.OlderThan, "failures", countFailures, &r.Failures, &plan.Failures},
		{"handled dead letters", p.DLQOlderThan, "dlq", countDLQ, &r.DLQ, &plan.DLQ},
		{"inbox rows", p.InboxOlderThan, "inbox", countInbox, &r.Inbox, &plan.Inbox},
		{"audit rows", p.AuditOlderThan, "audit", countAudit, &r.Audit, &plan.Audit},
	}
}

// A Plan is what a run would remove: events and dead letters by event type, the inbox and what
// consumers failed on by consumer, the audit by action.
type Plan struct {
	Events   []Count `json:"events"`
	DLQ      []Count `json:"dlq"`
	Inbox    []Count `json:"inbox"`
	Failures []Count `json:"failures"`
	Audit    []Count `json:"audit"`
}

// Each goes through the kinds of rows in the order in which they go.
func (p Plan) Each(do func(words string, total int64, counts []Count)) {
	for _, k := range (Params{}).kinds(&Result{}, &p) {
		var total int64
		for _, c := range *k.counts {
			total += c.Count
		}
		do(k.words, total, *k.counts)
	}
}

// Rows is how many rows that is.
func (p Plan) Rows() (n int64) {
	p.Each(func(_ string, total int64, _ []Count) { n += total })
	return n
}

// A Count counts rows by one of its names.
type Count struct {
	EventType *string `json:"eventType,omitempty"`
	Consumer  *string `json:"consumer,omitempty"`
	Action    *string `json:"action,omitempty"`
	Count     int64   `json:"count"`
}

// Of is the name.
func (c Count) Of() string { return *cmp.Or(c.EventType, c.Consumer, c.Action) }

// Plan counts what Run would remove now; it changes nothing.
func (c *Cleaner) Plan(ctx context.Context, p Params) (Plan, error) {
	plan := Plan{}
	err := p.Validate()
	for _, k := range p.kinds(&Result{}, &plan) {
		*k.counts = []Count{}
		if err != nil || k.age == nil {
			continue
		}
		rows, _ := c.pool.Query(ctx, k.count, *k.age) // collecting tells of its error
		if *k.counts, err = pgx.CollectRows(rows, pgx.RowToStructByNameLax[Count]); err != nil {
			err = fmt.Errorf("count %s: %w", k.words, err)
		}
	}
	return plan, err
}

// Validate refuses a cleanup that removes nothing, inbox rows that Redis may still lose (a flushed
// Redis would then let their effects happen again), or young audit rows. A face calls it before it
// opens anything.
func (p Params) Validate() error {
	switch {
	case p.OlderThan == nil && p.DLQOlderThan == nil && p.InboxOlderThan == nil && p.AuditOlderThan == nil:
		return fault.Hint(fault.Usagef("specify what to remove: --older-than, --dlq-older-than, --inbox-older-than, --audit-older-than"),
			"outboxctl cleanup --older-than 30d --dry-run counts first")
	case p.MaxRows < 0:
		return fault.Usagef("--max-rows must not be negative")
	case p.InboxOlderThan != nil && *p.InboxOlderThan < p.IdempotencyTTL:
		return fault.Hint(fault.Usagef("--inbox-older-than %s is less than idempotency.ttl (%s)", model.Duration(*p.InboxOlderThan), model.Duration(p.IdempotencyTTL)),
			"the inbox keeps an effect single when Redis has lost the event's key, so it has to remember for at least as long")
	case p.AuditOlderThan != nil && *p.AuditOlderThan < MinAuditAge:
		return fault.Hint(fault.Usagef("--audit-older-than %s is less than 7d", model.Duration(*p.AuditOlderThan)),
			"the last days of the audit trail are always kept, so that an operator cannot wipe out what they did")
	}
	return nil
}

// unfinished gives an error its kind: some of the run may be done already.
func unfinished(result Result, err error) error {
	switch {
	case err == nil:
		return nil
	case result.Rows() > 0 && !errors.Is(err, context.Canceled):
		return fault.Hint(fault.As(fault.Partial, err), "what was removed stays removed; run the same command again to continue")
	case errors.Is(err, ErrBusy):
		return fault.Hint(fault.As(fault.Precondition, err), "one cleaner works at a time; this one removed nothing. If the process is no cleanup, pg_terminate_backend ends it")
	default:
		return err
	}
}
