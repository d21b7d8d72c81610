package dispatch_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

const (
	huntKeys   = 12
	huntEvents = 800
	huntLease  = 300 * time.Millisecond
)

// hunt looks for events of one key that are first stored out of order, on a real PostgreSQL: producers that lock what
// they emit for, publishers that crash, stall beyond their lease and settle half or never, a broker that loses replies
// and stores late, operators, filters, and a session that locks rows. The publishers are the store's statements and the
// simplest use of them that keeps the order.
type hunt struct {
	t       *testing.T
	pool    *pgxpool.Pool
	random  atomic.Uint64
	emitted atomic.Int64

	mu     sync.Mutex
	stored int
	first  map[string]int
	poison map[string]bool
	events map[string][]huntEvent
	late   sync.WaitGroup
	// passed are the events that were ever discarded.
	passed map[string]bool
	counts struct{ crashes, stalls, dead, replayed, discarded, restored, republished atomic.Int64 }
}

type huntEvent struct {
	id  string
	seq int64
}

func (h *hunt) rand() *rand.Rand { return rand.New(rand.NewPCG(7, h.random.Add(1))) }

func (h *hunt) pause(r *rand.Rand, upTo time.Duration) {
	time.Sleep(time.Duration(r.Int64N(int64(upTo))))
}

var errHuntRollback = errors.New("rolled back")

// emit commits events of one key, now and then late, and sometimes not at all.
func (h *hunt) emit(ctx context.Context, r *rand.Rand) {
	types := []string{"order_state_changed", "cash_collected", "order_canceled"}
	for h.emitted.Load() < huntEvents && ctx.Err() == nil {
		key := r.IntN(huntKeys) * r.IntN(2) // half of them of one hot key
		var made []huntEvent
		err := pgx.BeginFunc(context.Background(), h.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(context.Background(), `UPDATE hunted SET version = version + 1 WHERE id = $1`, key); err != nil {
				return err
			}
			for range 1 + r.IntN(3) {
				e := huntEvent{id: uuid.NewString()}
				if r.IntN(25) == 0 {
					h.mu.Lock()
					h.poison[e.id] = true
					h.mu.Unlock()
				}
				if err := tx.QueryRow(context.Background(), insertOrdered, e.id, types[r.IntN(len(types))], fmt.Sprint("k", key)).Scan(&e.seq); err != nil {
					return err
				}
				made = append(made, e)
			}
			if r.IntN(12) == 0 {
				h.pause(r, 60*time.Millisecond)
			}
			if r.IntN(8) == 0 {
				return errHuntRollback
			}
			return nil
		})
		if !errors.Is(err, errHuntRollback) {
			if h.failed(err) {
				return
			}
			h.mu.Lock()
			h.events[fmt.Sprint(key)] = append(h.events[fmt.Sprint(key)], made...)
			h.mu.Unlock()
			h.emitted.Add(int64(len(made)))
		}
		h.pause(r, 20*time.Millisecond)
	}
}

func (h *hunt) failed(err error) bool {
	if err != nil {
		h.t.Errorf("hunt: %v", err)
	}
	return err != nil
}

// publish is one request: everything in it is stored, or nothing.
func (h *hunt) publish(r *rand.Rand, rows []dispatch.Claimed) error {
	h.pause(r, 5*time.Millisecond)
	store := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, row := range rows {
			h.stored++
			if h.first[row.ID] == 0 {
				h.first[row.ID] = h.stored
			}
		}
	}
	h.mu.Lock()
	poisoned := slices.ContainsFunc(rows, func(row dispatch.Claimed) bool { return h.poison[row.ID] })
	h.mu.Unlock()
	if poisoned {
		return dispatch.NewFailure(dispatch.Refused, "", nil)
	}
	switch n := r.IntN(100); {
	case n < 4: // stored, and the reply is lost
		store()
	case n < 8: // not stored
	case n < 12: // stored much later
		wait := time.Duration(r.IntN(900)) * time.Millisecond
		h.late.Go(func() {
			time.Sleep(wait)
			store()
		})
	default:
		store()
		return nil
	}
	return dispatch.NewFailure(dispatch.Retryable, "", nil)
}

// live is the life of one publisher, until it crashes or ctx ends.
func (h *hunt) live(ctx context.Context, r *rand.Rand, only []string) {
	store := newStore(h.pool, dispatch.Scope{Types: outbox.Everywhere(only...)})
	crashed := &atomic.Bool{}
	var runs sync.WaitGroup
	var hint int64
	for end := time.Now().Add(time.Duration(200+r.IntN(1200)) * time.Millisecond); ctx.Err() == nil && time.Now().Before(end); {
		p := orderedAll(4 + r.IntN(60))
		p.Lease = huntLease
		if r.IntN(4) == 0 { // a topic is paused
			p.Except = outbox.Everywhere("cash_collected")
		}
		if r.IntN(3) == 0 {
			p.AfterSeq, p.Sweep = hint, false
		}
		for range r.IntN(3) {
			p.Look = append(p.Look, fmt.Sprint("default/k", r.IntN(huntKeys)))
		}
		got, err := store.Claim(context.Background(), p)
		if h.failed(err) {
			return
		}
		hint = max(hint, got.SeenTo)
		byKey := map[string][]dispatch.Claimed{}
		for _, row := range got.Rows {
			byKey[row.OrderingKey] = append(byKey[row.OrderingKey], row)
		}
		for _, run := range byKey {
			own := h.rand()
			runs.Go(func() { h.send(own, store, run, crashed) })
		}
		h.pause(r, 8*time.Millisecond)
	}
	if r.IntN(2) == 0 {
		h.counts.crashes.Add(1)
		crashed.Store(true)
	}
	runs.Wait()
}

// send sends a run, request after request, up to the first failure.
func (h *hunt) send(r *rand.Rand, store *dispatch.SQLStore, run []dispatch.Claimed, crashed *atomic.Bool) {
	settle := func(v dispatch.Verdicts) {
		if crashed.Load() || r.IntN(50) == 0 { // the verdict never gets there
			return
		}
		if r.IntN(10) == 0 {
			h.pause(r, 200*time.Millisecond)
		}
		_, err := store.Settle(context.Background(), v)
		h.failed(err)
	}
	size := 1 + r.IntN(20)
	for len(run) > 0 && !crashed.Load() {
		if r.IntN(60) == 0 { // it stands still beyond its lease
			h.counts.stalls.Add(1)
			time.Sleep(huntLease)
			h.pause(r, 400*time.Millisecond)
		}
		part := run[:min(size, len(run))]
		err := h.publish(r, part)
		switch {
		case err == nil:
			var v dispatch.Verdicts
			for _, row := range part {
				v.Published = append(v.Published, dispatch.Published{Key: row.Key})
			}
			settle(v)
			run = run[len(part):]
			continue
		case dispatch.ClassOf(err) == dispatch.Refused && len(part) > 1:
			size = (len(part) + 1) / 2 // from the front, one part after the other
			continue
		case dispatch.ClassOf(err) == dispatch.Refused:
			h.counts.dead.Add(1)
			settle(dispatch.Verdicts{Dead: []dispatch.Dead{{Key: part[0].Key, Reason: outbox.ReasonRejectedByBroker, Error: "no"}}})
		default:
			settle(dispatch.Verdicts{Failed: []dispatch.Failed{{Key: part[0].Key, Error: "no", Delay: time.Duration(r.IntN(60)) * time.Millisecond}}})
		}
		var rest dispatch.Verdicts
		for _, row := range run[1:] {
			rest.Released = append(rest.Released, row.Key)
		}
		settle(rest) // a transaction of its own: any part of a settlement may be lost
		return
	}
}

// operate replays, discards, restores and republishes; when emptying is set it replays what is left, and the broker
// takes it.
func (h *hunt) operate(ctx context.Context, r *rand.Rand, emptying *atomic.Bool) {
	act := func(action, state string, count *atomic.Int64) (event string) {
		err := h.pool.QueryRow(context.Background(), `
SELECT f.event_id::text FROM outbox_change('`+action+`', ARRAY(SELECT id FROM outbox_dlq WHERE state = $1 ORDER BY random() LIMIT 1), 'hunt') AS f
 WHERE f.outcome NOT LIKE 'already%' AND f.outcome NOT LIKE 'event%'`, state).Scan(&event)
		if err == nil {
			count.Add(1)
		} else if !errors.Is(err, pgx.ErrNoRows) {
			h.failed(err)
		}
		return event
	}
	for ctx.Err() == nil {
		h.pause(r, 40*time.Millisecond)
		switch n := r.IntN(10); {
		case emptying.Load() || n < 5:
			event := act("dlq.replay", "open", &h.counts.replayed)
			h.mu.Lock()
			if emptying.Load() {
				clear(h.poison)
			} else if r.IntN(3) > 0 {
				delete(h.poison, event)
			}
			h.mu.Unlock()
		case n < 7:
			event := act("dlq.discard", "open", &h.counts.discarded)
			h.mu.Lock()
			h.passed[event] = true
			h.mu.Unlock()
		case n < 8:
			act("dlq.restore", "discarded", &h.counts.restored)
		default:
			tag, err := h.pool.Exec(context.Background(), `
SELECT FROM outbox_change('event.republish', ARRAY(SELECT id FROM outbox_events WHERE published_at IS NOT NULL ORDER BY random() LIMIT 2), 'hunt')`)
			h.failed(err)
			h.counts.republished.Add(tag.RowsAffected())
		}
	}
}

// lock holds rows for a moment, as a foreign session does.
func (h *hunt) lock(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		h.failed(pgx.BeginFunc(context.Background(), h.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(context.Background(), `
SELECT FROM outbox_events WHERE id IN (SELECT id FROM outbox_events WHERE published_at IS NULL ORDER BY random() LIMIT 3) FOR UPDATE SKIP LOCKED`)
			h.pause(r, 15*time.Millisecond)
			return err
		}))
	}
}

// verdict counts events that were first stored before an earlier one of their key, and those never stored.
func (h *hunt) verdict() (events, inverted, missing int) {
	for _, list := range h.events {
		slices.SortFunc(list, func(a, b huntEvent) int { return cmp.Compare(a.seq, b.seq) })
		last := 0
		for _, e := range list {
			events++
			at := h.first[e.id]
			switch {
			case h.passed[e.id]:
			case at == 0:
				missing++
			case at < last:
				inverted++
			default:
				last = at
			}
		}
	}
	return events, inverted, missing
}

func TestHuntFindsNothingOutOfOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	t.Parallel()
	db := outboxtest.DB(t)
	cfg, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `CREATE TABLE hunted AS SELECT g AS id, 0 AS version FROM generate_series(0, $1::int) AS g`, huntKeys)
	require.NoError(t, err)
	h := &hunt{t: t, pool: pool, first: map[string]int{}, poison: map[string]bool{}, events: map[string][]huntEvent{}, passed: map[string]bool{}}

	running, end := context.WithCancel(t.Context())
	defer end()
	var emitters, others sync.WaitGroup
	for range 5 {
		r := h.rand()
		emitters.Go(func() { h.emit(t.Context(), r) })
	}
	for i := range 3 {
		r := h.rand()
		var only []string
		if i == 2 {
			only = []string{"order_state_changed", "order_canceled"}
		}
		others.Go(func() {
			for running.Err() == nil && !t.Failed() {
				h.live(running, r, only)
			}
		})
	}
	var emptying atomic.Bool
	operator, locker := h.rand(), h.rand()
	others.Go(func() { h.operate(running, operator, &emptying) })
	others.Go(func() { h.lock(running, locker) })
	emitters.Wait()
	emptying.Store(true)
	require.Eventually(t, func() bool {
		var left int
		return h.failed(pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND passed_at IS NULL`).Scan(&left)) || left == 0
	}, time.Minute, 50*time.Millisecond, "the backlog is emptied")
	end()
	others.Wait()
	h.late.Wait()

	events, inverted, missing := h.verdict()
	c := &h.counts
	t.Logf("%d events, %d stored; %d crashes, %d stalls, %d dead, %d replayed, %d discarded, %d restored, %d republished", events, h.stored,
		c.crashes.Load(), c.stalls.Load(), c.dead.Load(), c.replayed.Load(), c.discarded.Load(), c.restored.Load(), c.republished.Load())
	require.Zero(t, inverted, "first stored before an earlier event of the key")
	require.Zero(t, missing)
	require.GreaterOrEqual(t, events, huntEvents)
}
