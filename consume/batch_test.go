package consume_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

// inbox is a database that has nothing but inbox rows: which rows were there, and what is committed, is all a Batch asks of one.
// The real one is met in internal/consumer.
type inbox struct {
	mu   sync.Mutex
	rows map[uuid.UUID]bool
}

func (db *inbox) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error) {
	return &inboxTx{db: db}, nil
}

type inboxTx struct {
	pgx.Tx
	db    *inbox
	fresh []uuid.UUID
}

func (tx *inboxTx) Query(_ context.Context, _ string, args ...any) (pgx.Rows, error) {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	seen := map[uuid.UUID]bool{}
	for _, text := range args[1].([]string) {
		if id := uuid.MustParse(text); !tx.db.rows[id] && !seen[id] {
			seen[id] = true
			tx.fresh = append(tx.fresh, id)
		}
	}
	return &inboxRows{ids: tx.fresh}, nil
}

func (tx *inboxTx) Commit(ctx context.Context) error {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, id := range tx.fresh {
		tx.db.rows[id] = true
	}
	return nil
}

func (*inboxTx) Rollback(context.Context) error { return nil }

type inboxRows struct {
	pgx.Rows
	ids []uuid.UUID
	at  int
}

func (r *inboxRows) Next() bool { r.at++; return r.at <= len(r.ids) }
func (r *inboxRows) Scan(dest ...any) error {
	*dest[0].(*uuid.UUID) = r.ids[r.at-1]
	return nil
}
func (*inboxRows) Close()                        {}
func (*inboxRows) Err() error                    { return nil }
func (*inboxRows) CommandTag() pgconn.CommandTag { return pgconn.CommandTag{} }

// batchWorld hands events to a Batch with one lane, whose first transaction is held until the others wait behind it.
type batchWorld struct {
	t     *testing.T
	db    *inbox
	batch *consume.Batch
	ids   []uuid.UUID
	sizes []int // of the groups that the effect got, the holding one apart; one goroutine at a time appends
	mu    sync.Mutex
	hold  uuid.UUID
	open  chan struct{}
}

func newBatchWorld(t *testing.T, events int, effect func(context.Context, consume.Event) error) *batchWorld {
	t.Helper()
	w := &batchWorld{t: t, db: &inbox{rows: map[uuid.UUID]bool{}}}
	for range events {
		w.ids = append(w.ids, uuid.New())
	}
	w.batch = consume.NewBatch(w.db, "c", consume.BatchOptions{Parallel: 1}, func(ctx context.Context, _ pgx.Tx, events []consume.Event) error {
		if events[0].ID == w.hold {
			<-w.open
			return nil
		}
		w.mu.Lock()
		w.sizes = append(w.sizes, len(events))
		w.mu.Unlock()
		for _, e := range events {
			if err := effect(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

// deliver hands the events over at the same time, and returns what became of each.
func (w *batchWorld) deliver(ctx func(i int) context.Context, ids ...uuid.UUID) (applied []bool, errs []error) {
	w.hold, w.open = uuid.New(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = w.batch.Once(w.t.Context(), consume.Event{ID: w.hold}) })
	synctest.Wait()
	applied, errs = make([]bool, len(ids)), make([]error, len(ids))
	for i, id := range ids {
		wg.Go(func() { applied[i], errs[i] = w.batch.Once(ctx(i), consume.Event{ID: id}) })
	}
	synctest.Wait()
	close(w.open)
	wg.Wait()
	return applied, errs
}

func (w *batchWorld) plain(int) context.Context { return w.t.Context() }

func TestBatch(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tc := range []struct {
		name   string
		poison func() error // what the second event does
		err    error
		sizes  []int // of the first delivery's groups
	}{
		{name: "one transaction", poison: func() error { return nil }, sizes: []int{4}},
		{name: "one fails", poison: func() error { return boom }, err: boom, sizes: []int{4, 1, 1, 1, 1}},
		{name: "one is malformed", poison: func() error { return consume.Malformed(boom) }, err: consume.ErrMalformed, sizes: []int{4, 1, 1, 1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var poison uuid.UUID
				w := newBatchWorld(t, 4, func(_ context.Context, e consume.Event) error {
					if e.ID == poison {
						return tc.poison()
					}
					return nil
				})
				poison = w.ids[1]
				applied, errs := w.deliver(w.plain, w.ids...)
				require.Equal(t, tc.sizes, w.sizes)
				for i, id := range w.ids {
					failed := id == poison && tc.err != nil
					require.Equal(t, !failed, applied[i])
					require.Equal(t, !failed, w.db.rows[id])
					if failed {
						require.ErrorIs(t, errs[i], tc.err)
					} else {
						require.NoError(t, errs[i])
					}
				}
				// The failed one comes again, beside new ones: their transaction has nothing to do with it.
				if tc.err != nil {
					w.sizes = nil
					applied, _ = w.deliver(w.plain, poison, uuid.New(), uuid.New())
					require.Equal(t, []bool{false, true, true}, applied)
					require.ElementsMatch(t, []int{1, 2}, w.sizes)
				}
			})
		})
	}
}

func TestABatchSurvivesAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w *batchWorld
		w = newBatchWorld(t, 3, func(_ context.Context, e consume.Event) error {
			if e.ID == w.ids[0] {
				panic("boom")
			}
			return nil
		})
		applied, errs := w.deliver(w.plain, w.ids...)
		require.Equal(t, []bool{false, true, true}, applied)
		var panicked *consume.PanicError
		require.ErrorAs(t, errs[0], &panicked)
	})
}

// An event that was applied before, and a second delivery of one in the same batch, are duplicates.
func TestABatchAppliesAnEventOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newBatchWorld(t, 2, func(context.Context, consume.Event) error { return nil })
		w.db.rows[w.ids[0]] = true
		applied, errs := w.deliver(w.plain, w.ids[0], w.ids[1], w.ids[1])
		require.Equal(t, []error{nil, nil, nil}, errs)
		require.False(t, applied[0])
		require.NotEqual(t, applied[1], applied[2])
		require.Equal(t, []int{1}, w.sizes)
	})
}

// The lease of one event is lost while its batch is at work: its effect must not be committed, and the others are applied.
func TestALostLeaseStopsTheBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		losing, lose := context.WithCancelCause(t.Context())
		first := true
		w := newBatchWorld(t, 3, func(ctx context.Context, _ consume.Event) error {
			if first {
				first = false
				lose(consume.ErrLeaseLost)
				<-ctx.Done()
			}
			return nil // an effect that does not look at its context: the commit does
		})
		applied, errs := w.deliver(func(i int) context.Context {
			if i == 0 {
				return losing
			}
			return t.Context()
		}, w.ids...)
		require.Equal(t, []bool{false, true, true}, applied)
		require.ErrorIs(t, errs[0], consume.ErrLeaseLost)
		require.False(t, w.db.rows[w.ids[0]])
	})
}

// An event whose effect hangs takes its batch's time with it, once: from then on each of them runs alone.
func TestABatchThatHangsDoesNotHangAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w *batchWorld
		w = newBatchWorld(t, 3, func(ctx context.Context, e consume.Event) error {
			if e.ID == w.ids[0] {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		for _, want := range [][]bool{{false, false, false}, {false, true, true}} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			applied, _ := w.deliver(func(int) context.Context { return ctx }, w.ids...)
			cancel()
			require.Equal(t, want, applied)
		}
	})
}
