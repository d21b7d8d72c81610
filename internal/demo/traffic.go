package demo

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/emit"
)

const (
	// faultEvery is how many good events stand between two faulty ones; the first comes early enough
	// to be seen in a short run.
	faultEvery = 25
	firstFault = 5
	// commitsPerSecond bounds the transactions at high rates: events are then committed several at a
	// time.
	commitsPerSecond = 100
)

// Params describes what traffic to produce.
type Params struct {
	Seed uint64
	// Rate is in events per second.
	Rate float64
	// Report is the time between two reports.
	Report time.Duration
	Now    func() time.Time
}

// Report is what has been produced so far.
type Report struct {
	Total  int
	Faulty int
	ByType map[string]int
}

func (r Report) String() string {
	line := fmt.Sprintf("demo: %d events emitted, %d of them meant to fail", r.Total, r.Faulty)
	types := slices.Sorted(maps.Keys(r.ByType))
	slices.SortStableFunc(types, func(a, b string) int { return r.ByType[b] - r.ByType[a] })
	for i, name := range types {
		if i == 3 {
			line += fmt.Sprintf(", %d more types", len(types)-i)
			break
		}
		separator := ", "
		if i == 0 {
			separator = "; mostly "
		}
		line += fmt.Sprintf("%s%s %d", separator, name, r.ByType[name])
	}
	return line
}

// DB is what traffic needs of a connection pool.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Traffic writes events until it is stopped.
type Traffic struct {
	params  Params
	db      DB
	emitter *emit.Emitter
	report  func(Report)

	// Owned by Run.
	source    source
	toFault   int
	done      Report
	lastShown time.Time
}

// source makes up events. A scene is what one request of an application would commit; a fault is an
// event that the publisher will refuse.
type source interface {
	scene() []emit.Event
	fault() fault
}

// New returns the traffic of a market place. It tells report about itself every now and then and
// once at its end.
func New(params Params, db DB, emitter *emit.Emitter, report func(Report)) *Traffic {
	random := params.random()
	return newTraffic(params, db, emitter, report,
		market{newShop(random, params.Now), &faults{random: random, now: params.Now}})
}

func newTraffic(params Params, db DB, emitter *emit.Emitter, report func(Report),
	from source) *Traffic {
	return &Traffic{
		params: params, db: db, emitter: emitter, report: report, source: from,
		toFault: firstFault,
		done:    Report{ByType: map[string]int{}},
	}
}

func (p Params) random() *rand.Rand { return rand.New(rand.NewPCG(p.Seed, p.Seed)) }

// market is the source of the built-in event types.
type market struct {
	*shop
	faults *faults
}

func (m market) fault() fault { return m.faults.next() }

// Run produces traffic until the context ends, which is no error.
func (t *Traffic) Run(ctx context.Context) error {
	batch := max(1, int(t.params.Rate/commitsPerSecond))
	limiter := rate.NewLimiter(rate.Limit(t.params.Rate), batch+longestScene)
	t.lastShown = t.params.Now()
	defer func() { t.show() }()

	for {
		events := t.next(batch)
		if err := limiter.WaitN(ctx, len(events)); err != nil {
			<-ctx.Done() // it is over, or will be before the next event is due
			return nil
		}
		if err := t.commit(ctx, events); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if t.params.Now().Sub(t.lastShown) >= t.params.Report {
			t.show()
		}
	}
}

// next returns at least as many events as asked for: a scene is committed as a whole.
func (t *Traffic) next(atLeast int) []emit.Event {
	var events []emit.Event
	for len(events) < atLeast {
		events = append(events, t.source.scene()...)
	}
	return events
}

// commit writes good events the way an application does, and a faulty one when it is due.
func (t *Traffic) commit(ctx context.Context, events []emit.Event) error {
	var faulty []fault
	for t.toFault -= len(events); t.toFault <= 0; t.toFault += faultEvery {
		faulty = append(faulty, t.source.fault())
	}
	var results []emit.Result
	err := pgx.BeginFunc(ctx, t.db, func(tx pgx.Tx) (err error) {
		if results, err = t.emitter.EmitAll(ctx, tx, events); err != nil {
			return err
		}
		for _, f := range faulty {
			if err := f.insert(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write demo events: %w", err)
	}
	for i, e := range events {
		// A second run with the same seed repeats the first one's dedupe keys.
		if !results[i].AlreadyEnqueued {
			t.done.ByType[e.Type]++
			t.done.Total++
		}
	}
	for _, f := range faulty {
		t.done.ByType[f.eventType]++
		t.done.Faulty++
		t.done.Total++
	}
	return nil
}

func (t *Traffic) show() {
	t.lastShown = t.params.Now()
	shown := t.done
	shown.ByType = maps.Clone(t.done.ByType)
	t.report(shown)
}

// Outbox is how the events are doing.
type Outbox struct {
	// Published counts those published since the time asked about.
	Published int64
	Waiting   int64
	// Dead counts the open dead letters.
	Dead int64
}

// countOutbox asks three partial indexes; the published ones since a time only, so that an old
// stack costs no more.
const countOutbox = `
SELECT (SELECT count(*) FROM outbox_events WHERE published_at >= $1),
       (SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL),
       (SELECT count(*) FROM outbox_dlq WHERE state = 'open')`

// ReadOutbox counts the events in the database at url.
func ReadOutbox(ctx context.Context, url string, since time.Time) (o Outbox, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return o, fmt.Errorf("count events: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // it only read
	if err := conn.QueryRow(ctx, countOutbox, since).Scan(&o.Published, &o.Waiting,
		&o.Dead); err != nil {
		return o, fmt.Errorf("count events: %w", err)
	}
	return o, nil
}
