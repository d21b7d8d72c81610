// Package bench measures what only those who change outboxctl ask: what stands in the way of a
// drain, what lies behind it, what an idle publisher and the web page cost, and how far a drain is
// from the database alone and from the loop most people write first. The measuring itself is that
// of outboxctl bench.
package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// The criteria of the modes that drain.
const (
	minSpeedUp     = 40.0 // over row by row
	minOfFloor     = 0.7
	minBehindHead  = 0.5 // of the rate without
	maxBacklogCost = 1.3
	maxHistoryCost = 1.2
	maxIndexGrowth = 1.5
	// smallBacklog takes long enough for its rate to be steady.
	smallBacklog = 200_000
)

// Modes are the laboratory's.
func Modes() []bench.Mode {
	return []bench.Mode{
		{Name: "compared", Summary: "drain, judged by row-by-row and db-only", Measure: measure(compared)},
		dbOnly(), RowByRow(), PinnedXmin(), backingOff(), pausedTopic(), Backlog(),
		{Name: "history", Summary: "drain with --head published rows lying behind",
			Defaults: bench.Sizes{Head: 5_000_000}, Measure: measure(history)},
		{Name: "idle", Summary: "what a publisher with nothing to do costs", Inside: true, Measure: measure(idle)},
		{Name: "keyless", Summary: "what ordering keys cost those who use none, few, or one, and beside --head parked rows",
			Defaults: bench.Sizes{Head: 100_000, Rate: 800}, Measure: measure(keyless)},
		{Name: "catalogue", Summary: "drain and emit on enum columns, on text, with 500 types, and with a JSON Schema for each",
			Inside: true, Measure: measure(catalogues)},
		{Name: "emit", Summary: "outbox_emit and outbox_emit_many against a plain INSERT, on enum, text, and 500 types",
			Inside: true, Measure: measure(emitting)},
		{Name: "ui", Summary: "every page over --head rows, a fifth of them dead letters, and a drain beside 20 viewers",
			Defaults: bench.Sizes{Events: 60_000, Head: 50_000}, Measure: measure(measureUI)},
		{Name: "brokers", Summary: "drain to each destination, on servers of its own",
			Inside: true, Measure: measure(brokers)},
	}
}

func one(ctx context.Context, s *bench.Session) (*bench.Report, error) { return s.One(ctx, s.Params) }

// measure is a mode's Measure in steps: see rig.Carry. A step that must measures ends it, with what
// it measured.
func measure(
	steps func(ctx context.Context, s *bench.Session) *bench.Report,
) func(ctx context.Context, s *bench.Session) (*bench.Report, error) {
	return func(ctx context.Context, s *bench.Session) (report *bench.Report, err error) {
		err = rig.Carry(func() { report = steps(ctx, s) })
		var wrong *wrongError
		if errors.As(err, &wrong) {
			return wrong.report, wrong.error
		}
		return report, err
	}
}

type wrongError struct {
	error
	report *bench.Report
}

func must(report *bench.Report, err error) *bench.Report {
	if err != nil {
		rig.Check(&wrongError{err, report})
	}
	return report
}

func with(ctx context.Context, s *bench.Session, p bench.Params, steps func(*bench.Trial) *bench.Report) *bench.Report {
	return must(s.With(ctx, p, func(r *bench.Trial) (*bench.Report, error) { return steps(r), nil }))
}

func dbOnly() bench.Mode {
	return bench.Mode{Name: "db-only", Summary: "drain without a broker: the floor", Inside: true, Measure: one,
		To: func(r *bench.Trial) dispatch.Publisher { return floor{r} }}
}

// floor acknowledges at once: what remains is the database's cost.
type floor struct{ trial *bench.Trial }

func (p floor) Publish(_ context.Context, _ string, msgs []dispatch.Message) []dispatch.Result {
	p.trial.Record(msgs)
	results := make([]dispatch.Result, len(msgs))
	for i := range results {
		results[i].MessageID = "0"
	}
	return results
}

func (floor) Limits(string) wire.Limits { return wire.PubSubLimits() }

func (floor) Ready(context.Context, string) error { return nil }

func compared(ctx context.Context, s *bench.Session) *bench.Report {
	loop, floor := s.Params, s.Params
	loop.Mode, loop.Events, loop.Publishers, loop.Processes = RowByRow(), min(2_000, s.Params.Events), 1, false
	floor.Mode, floor.Processes = dbOnly(), false
	slow := must(s.One(ctx, loop))
	var bestFloor, best *bench.Report
	for range bench.Rounds {
		bestFloor = must(s.Better(ctx, floor, bestFloor))
		best = must(s.Better(ctx, s.Params, best))
	}
	best.Compared = []*bench.Report{slow, bestFloor}
	best.AtLeast("rate over row-by-row", best.EventsPerSecond/slow.EventsPerSecond, minSpeedUp)
	best.AtLeast("rate over db-only", best.EventsPerSecond/bestFloor.EventsPerSecond, minOfFloor)
	best.CheckShape()
	return best
}

func backingOff() bench.Mode {
	return behindHead(bench.Mode{Name: "backing-off", Summary: "drain behind --head rows that wait for their next attempt",
		Defaults: bench.Sizes{Head: 100_000},
	}, order(), map[string]string{"attempt_count": "3", "next_attempt_at": "now() + interval '1 hour'"})
}

func pausedTopic() bench.Mode {
	payment := emit.Event{Type: packfinderz.TypePaymentSettled, Data: packfinderz.PaymentSettled{
		OrderID: uuid.New(), PaymentIntentID: uuid.NewString(), AmountCents: 4200, SettledAt: time.Now(),
	}}
	return behindHead(bench.Mode{Name: "paused-topic", Summary: "drain behind --head rows of a topic the broker lacks",
		Defaults: bench.Sizes{Head: 1_000_000}, Partly: true,
	}, payment, map[string]string{"attempt_count": "0"})
}

// order is an event like those that are measured.
func order() emit.Event {
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()}
	return emit.Event{Type: packfinderz.TypeOrderCreated, Data: packfinderz.OrderCreated{CheckoutGroupID: uuid.New(), VendorOrderIDs: ids}}
}

// behindHead drains behind rows that cannot be claimed, and have to be left as they are.
func behindHead(m bench.Mode, like emit.Event, columns map[string]string) bench.Mode {
	m.Measure = measure(func(ctx context.Context, s *bench.Session) *bench.Report {
		return against(ctx, s, like, columns, func(report, normal *bench.Report) {
			report.AtLeast("rate over one without a head", report.EventsPerSecond/normal.EventsPerSecond, minBehindHead)
		})
	})
	m.Verify = func(ctx context.Context, r *bench.Trial, report *bench.Report) error {
		err := r.DB.Pool.QueryRow(ctx, `SELECT count(*) FROM outbox_events WHERE namespace <> $1 AND
			(published_at IS NOT NULL OR dead_at IS NOT NULL OR attempt_count <> `+columns["attempt_count"]+`)`,
			bench.Measured).Scan(&report.HeadDisturbed)
		if err == nil && report.HeadDisturbed > 0 {
			err = fmt.Errorf("%d of %d rows that had to be left alone were changed", report.HeadDisturbed, r.Params.Head)
		}
		return err
	}
	return m
}

func history(ctx context.Context, s *bench.Session) *bench.Report {
	published := map[string]string{"published_at": "now()"}
	return against(ctx, s, order(), published, func(report, normal *bench.Report) {
		report.AtMost("cost per event over one without history", normal.EventsPerSecond/report.EventsPerSecond, maxHistoryCost)
	})
}

// against measures a drain beside other rows and, to judge it, the same one without.
func against(
	ctx context.Context, s *bench.Session, like emit.Event, columns map[string]string, judge func(report, normal *bench.Report),
) *bench.Report {
	var normal *bench.Report
	if s.Params.Check {
		plain := s.Params
		plain.Mode, plain.Head = bench.Drain(), 0
		normal = must(s.One(ctx, plain))
	}
	report := must(s.Drain(ctx, s.Params, func(r *bench.Trial) error {
		fill(ctx, r, s.Params.Head, like, columns)
		return r.Emit(ctx, s.Params.Events)
	}))
	if normal != nil {
		report.Compared = []*bench.Report{normal}
		judge(report, normal)
	}
	return report
}

func fill(ctx context.Context, r *bench.Trial, rows int, like emit.Event, columns map[string]string) {
	rig.Fill(ctx, r.DB.Pool, rows, like, columns, r.Params.Progress)
}

// Backlog compares the cost per event of a small and a large backlog, which is the head itself.
func Backlog() bench.Mode {
	return bench.Mode{Name: "backlog", Summary: fmt.Sprintf("drain --head rows; --check compares with %d", smallBacklog),
		Defaults: bench.Sizes{Head: 1_000_000}, Measure: measure(backlog)}
}

func backlog(ctx context.Context, s *bench.Session) *bench.Report {
	drain := func(n int) func() (*bench.Report, error) {
		p := s.Params
		p.Events = n
		return func() (*bench.Report, error) {
			return s.Drain(ctx, p, func(r *bench.Trial) error {
				fill(ctx, r, n, order(), map[string]string{"namespace": "'" + bench.Measured + "'"})
				return nil
			})
		}
	}
	var small *bench.Report
	for range bench.Rounds {
		if s.Params.Check {
			small = must(bench.Faster(small, drain(min(smallBacklog, s.Params.Head))))
		}
	}
	report := must(drain(s.Params.Head)())
	if small != nil {
		report.Compared = []*bench.Report{small}
		report.AtMost(fmt.Sprintf("cost per event over a backlog of %d", small.Events), small.EventsPerSecond/report.EventsPerSecond, maxBacklogCost)
		report.AtMost("claim index over its size before", report.ClaimIndexGrowth, maxIndexGrowth)
		report.CheckShape()
	}
	return report
}

const (
	naiveBatch = 50
	// naiveDelay is how long the client library waits for a second message. Its
	// own default is ten times longer and would make the loop slower still.
	naiveDelay = time.Millisecond
)

const (
	naiveSelectSQL = `
SELECT id::text, event_type::text, aggregate_type::text, aggregate_id::text, payload_json::text, created_at
  FROM outbox_events
 WHERE published_at IS NULL
 ORDER BY created_at
 LIMIT $1
   FOR UPDATE SKIP LOCKED`

	naiveMarkSQL = `UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid`
)

// RowByRow is the loop most people write first: publish a row, wait, mark it, next.
func RowByRow() bench.Mode {
	return bench.Mode{Name: "row-by-row", Summary: "publish, wait, mark, one row at a time", Inside: true,
		Defaults: bench.Sizes{Events: 2_000}, Measure: one, Loop: rowByRow}
}

// rowByRow is the loop the dispatcher is compared with: one transaction per batch,
// and inside it publish a row, wait for the broker, mark it, take the next.
func rowByRow(ctx context.Context, r *bench.Trial) (time.Duration, error) {
	topic := r.Client.PubSub().Publisher(bench.DomainTopic)
	topic.PublishSettings.DelayThreshold = naiveDelay
	defer topic.Stop()
	began := time.Now()
	for {
		n := 0
		err := pgx.BeginFunc(ctx, r.DB.Pool, func(tx pgx.Tx) error {
			return rig.Carry(func() { n = naiveTurn(ctx, tx, topic) })
		})
		if err != nil {
			return 0, fmt.Errorf("publish row by row: %w", err)
		}
		if n == 0 {
			return time.Since(began), nil
		}
	}
}

type naiveRow struct {
	wire.Row
	payload []byte
}

func naiveTurn(ctx context.Context, tx pgx.Tx, topic *pubsub.Publisher) int {
	found := rig.Must(tx.Query(ctx, naiveSelectSQL, naiveBatch))
	rows := rig.Must(pgx.CollectRows(found, func(row pgx.CollectableRow) (n naiveRow, err error) {
		n.Namespace = bench.Measured
		err = row.Scan(&n.ID, &n.EventType, &n.AggregateType, &n.AggregateID, &n.payload, &n.CreatedAt)
		return n, err
	}))
	for _, row := range rows {
		rig.Must(topic.Publish(ctx, &pubsub.Message{Data: row.payload, Attributes: wire.Attributes(row.Row)}).Get(ctx))
		rig.Must(tx.Exec(ctx, naiveMarkSQL, row.ID))
	}
	return len(rows)
}
