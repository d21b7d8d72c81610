package consume

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// DefaultBatchSize is how many events share a transaction at most.
	DefaultBatchSize = 100
	// DefaultBatches is how many transactions of a Batch are under way at once: while one waits for
	// the disk, another works.
	DefaultBatches = 2

	// maxAlone bounds the memory for events that are to run alone.
	maxAlone = 10_000
)

// BatchOptions of a Batch. The zero value means the defaults.
type BatchOptions struct {
	// Size is how many events share a transaction at most (default DefaultBatchSize). No event waits
	// for others to come.
	Size int
	// Parallel is how many transactions are under way at once (default DefaultBatches).
	Parallel int
}

// Batch applies events several at a time, in one transaction with their inbox rows. It is Once for
// a busy consumer, and safe for concurrent use.
//
// A batch that fails is rolled back, and each of its events runs in a transaction of its own: what
// is wrong with one costs the others a second try and no more. An event that failed alone, or whose
// context ended in company, runs alone from then on.
type Batch struct {
	db       DB
	consumer string
	effect   func(context.Context, pgx.Tx, []Event) error
	group    gather[*member]

	mu    sync.Mutex
	alone map[uuid.UUID]bool // events that are to run alone; guarded by mu
}

// member is one event on its way through a batch.
type member struct {
	ctx     context.Context
	event   Event
	applied bool
	err     error
	done    chan struct{} // closed when applied and err say what became of it
}

// NewBatch returns a Batch. The effect gets one event or several, none of them twice, and writes
// all that they mean through the transaction, best in one statement. It must stop when its context
// ends, which it does when one of the events' contexts ends.
func NewBatch(db DB, consumer string, opts BatchOptions, effect func(context.Context, pgx.Tx, []Event) error) *Batch {
	b := &Batch{db: db, consumer: consumer, effect: effect, alone: map[uuid.UUID]bool{}}
	b.group = gather[*member]{size: cmp.Or(opts.Size, DefaultBatchSize), lanes: cmp.Or(opts.Parallel, DefaultBatches), do: b.together}
	return b
}

// Once applies the event, together with those that other goroutines hand over at the same time, and
// returns when that is committed or has failed. It reports false when an earlier delivery did.
func (b *Batch) Once(ctx context.Context, e Event) (applied bool, err error) {
	m := &member{ctx: ctx, event: e, done: make(chan struct{})}
	if b.isAlone(e.ID) {
		b.single(m)
	} else {
		b.group.add(m)
	}
	<-m.done
	return m.applied, m.err
}

// together applies the members in one transaction, or each in its own when that fails.
func (b *Batch) together(members []*member) {
	if len(members) == 1 {
		b.single(members[0])
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(members[0].ctx))
	defer cancel(nil)
	for _, m := range members {
		// A member that loses its lease takes the batch with it: its effect must not be committed after
		// that.
		defer context.AfterFunc(m.ctx, func() { cancel(context.Cause(m.ctx)) })()
	}
	if b.apply(ctx, members) == nil {
		for _, m := range members {
			close(m.done)
		}
		return
	}
	var singles sync.WaitGroup
	for _, m := range members {
		singles.Go(func() { b.single(m) })
	}
	singles.Wait()
}

// single applies one member in a transaction of its own.
func (b *Batch) single(m *member) {
	defer close(m.done)
	if m.err = context.Cause(m.ctx); m.err == nil {
		m.err = b.apply(m.ctx, []*member{m})
	}
	m.applied = m.applied && m.err == nil
	b.setAlone(m.event.ID, m.err != nil)
}

// apply has the members' effects and inbox rows committed. Those whose row was there are not
// applied.
func (b *Batch) apply(ctx context.Context, members []*member) error {
	return guarded(ctx, func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, b.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			fresh, err := b.insert(ctx, tx, members)
			if err != nil {
				return fmt.Errorf("insert inbox rows: %w", err)
			}
			var events []Event
			for _, m := range members {
				if m.applied = fresh[m.event.ID]; m.applied {
					events = append(events, m.event)
					delete(fresh, m.event.ID) // a second delivery of the event in this batch finds the first one's row
				}
			}
			if len(events) == 0 {
				return nil
			}
			return b.effect(ctx, tx, events)
		})
	})
}

// insertInboxMany is insertInbox for many events. In the order of their ids, or two batches that
// share two events could wait for each other.
const insertInboxMany = `
INSERT INTO inbox_events (consumer, event_id)
SELECT $1, id FROM unnest($2::uuid[]) AS id ORDER BY id
ON CONFLICT (consumer, event_id) DO NOTHING
RETURNING event_id`

// insert returns the events whose inbox rows were not there.
func (b *Batch) insert(ctx context.Context, tx pgx.Tx, members []*member) (map[uuid.UUID]bool, error) {
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.event.ID.String()
	}
	rows, err := tx.Query(ctx, insertInboxMany, b.consumer, ids)
	if err != nil {
		return nil, err
	}
	fresh := make(map[uuid.UUID]bool, len(members))
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error { fresh[id] = true; return nil })
	return fresh, err
}

func (b *Batch) isAlone(id uuid.UUID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.alone[id]
}

func (b *Batch) setAlone(id uuid.UUID, alone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !alone:
		delete(b.alone, id)
	case len(b.alone) < maxAlone:
		b.alone[id] = true
	}
}
