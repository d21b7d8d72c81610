package score

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// newEvent makes one that the example consumer acts on.
func newEvent(poison bool) emit.Event {
	e := emit.Event{
		ID: uuid.Must(uuid.NewV7()), Type: packfinderz.TypeLicenseStatusChanged, AggregateID: uuid.NewString(),
		Data: packfinderz.LicenseStatusChanged{LicenseID: uuid.New(), StoreID: uuid.New(),
			Status: packfinderz.LicenseVerified, Reason: "scoreboard"},
	}
	if poison {
		e.Headers = map[string]string{rig.HeaderHeal: rig.HealAtTheEnd}
	}
	return e
}

func emitAll(ctx context.Context, pool *pgxpool.Pool, events ...emit.Event) {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := packfinderz.EmitAll(ctx, tx, events)
		return err
	})
	if err != nil {
		rig.Check(fmt.Errorf("emit: %w", err))
	}
}

// emitMany commits n events, hundreds to a transaction; of these, every poison-th is one the broker
// rejects.
func emitMany(ctx context.Context, pool *pgxpool.Pool, n, poison int) (ids []string) {
	for done := 0; done < n; {
		batch := make([]emit.Event, min(500, n-done))
		for i := range batch {
			batch[i] = newEvent(poison > 0 && (done+i)%poison == poison-1)
			ids = append(ids, batch[i].ID.String())
		}
		emitAll(ctx, pool, batch...)
		done += len(batch)
	}
	return ids
}

// offer is a load: events per second, each in a transaction of its own.
type offer struct {
	rate  int
	lasts time.Duration
	// lateShare of the transactions stay open for hold before they commit.
	lateShare float64
	hold      time.Duration
	// poisonShare of the events are rejected by the broker.
	poisonShare float64
	// keyed events have an ordering key of their own: transactions that overlap have no order.
	keyed bool
}

// committed is an event and when its producer had the answer to COMMIT.
type committed struct {
	id     string
	at     time.Time
	late   bool
	poison bool
}

// offer commits events at a steady rate and returns them when all are committed.
func (w *world) offer(ctx context.Context, o offer) []committed {
	pool := w.Pool(ctx, w.Postgres.URL(database), 48)
	defer pool.Close()
	var mu sync.Mutex
	var all []committed
	limiter := rate.NewLimiter(rate.Limit(o.rate), 1)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(48)
	for range int(float64(o.rate) * o.lasts.Seconds()) {
		if err := limiter.Wait(ctx); err != nil {
			break // the group has the reason
		}
		c := committed{late: w.random.Float64() < o.lateShare, poison: w.random.Float64() < o.poisonShare}
		group.Go(func() error {
			event := newEvent(c.poison)
			if o.keyed {
				event.OrderingKey = event.ID.String()
			}
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if _, err := packfinderz.Emit(ctx, tx, event); err != nil {
					return err
				}
				if c.late {
					rig.Pause(ctx, o.hold)
				}
				return ctx.Err()
			})
			c.id, c.at = event.ID.String(), time.Now()
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
			return err
		})
	}
	rig.Check(group.Wait())
	return all
}

// waits are how long the broker's acknowledgement took after each commit, for the events that are
// wanted.
func (w *world) waits(all []committed, wanted func(committed) bool) spread {
	var took []time.Duration
	for _, c := range all {
		if first, ok := w.ledger.of(c.id); ok && wanted(c) {
			took = append(took, max(0, first.at.Sub(c.at)))
		}
	}
	return spreadOf(took)
}

type spread struct {
	p50, p99, max time.Duration
	n             int
}

func spreadOf(took []time.Duration) spread {
	if len(took) == 0 {
		return spread{}
	}
	slices.Sort(took)
	return spread{p50: took[len(took)/2], p99: took[len(took)*99/100], max: took[len(took)-1],
		n: len(took)}
}

type tally struct {
	events     int
	lost       int // neither with the broker nor dead
	unknown    int // with the broker, but in no row
	duplicates int
	dead       int
}

func (t tally) exact() bool { return t.lost == 0 && t.unknown == 0 && t.duplicates == 0 }

func (w *world) tally(ctx context.Context) (t tally) {
	rows := rig.Must(w.pool.Query(ctx,
		`SELECT id::text, dead_at IS NOT NULL, published_at IS NOT NULL FROM outbox_events`))
	defer rows.Close()
	stored, duplicates := w.ledger.counts()
	t.unknown, t.duplicates = stored, duplicates
	for rows.Next() {
		var id string
		var dead, published bool
		rig.Check(rows.Scan(&id, &dead, &published))
		t.events++
		_, arrived := w.ledger.of(id)
		if arrived {
			t.unknown--
		}
		switch {
		case dead:
			t.dead++
		case !arrived || !published:
			t.lost++
		}
	}
	rig.Check(rows.Err())
	return t
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// forgetEvery is after how many messages the fake is told to forget what it holds.
const forgetEvery = 20_000

// ledger is the record of what reached the broker.
type ledger struct {
	forget func()

	mu    sync.Mutex
	first map[string]arrival // the first message of each event
	total int                // of all messages
}

// arrival is when the broker acknowledged a message, and the message's place among all, from 1 on.
type arrival struct {
	at    time.Time
	place int
}

func newLedger() *ledger { return &ledger{first: map[string]arrival{}} }

func (l *ledger) answered(_ time.Time, a devstack.PublishAnswer) {
	l.mu.Lock()
	before := l.total
	for i := range a.Stored {
		l.store(a.Messages[i].GetAttributes()["event_id"], time.Now())
	}
	due := before/forgetEvery != l.total/forgetEvery
	l.mu.Unlock()
	if due {
		l.forget()
	}
}

func (l *ledger) store(id string, at time.Time) {
	l.total++
	if _, known := l.first[id]; !known {
		l.first[id] = arrival{at, l.total}
	}
}

// of is the first message of an event.
func (l *ledger) of(id string) (first arrival, stored bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, stored = l.first[id]
	return first, stored
}

// counts are how many events it has stored, and the messages beyond each one's first.
func (l *ledger) counts() (events, duplicates int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.first), l.total - len(l.first)
}
