package bench

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/jackc/pgx/v5"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// The criteria of mode compared.
const (
	minSpeedUp   = 40.0 // over row by row
	minOverRiver = 2.0
	// rowByRowShare is the part of the events that the row-by-row loop gets.
	rowByRowShare = 10
)

// compared empties a backlog with outboxctl, with a River worker that publishes one event per job,
// and with the loop that most people write first.
func compared(ctx context.Context, s *Session, p Params) *Report {
	few := p
	few.Events = max(p.Events/rowByRowShare, 1)
	best := inTurn(p.Rounds, s.oneOf(ctx, p),
		func() *Report { return s.trial(ctx, p, func(t *Trial) *Report { return t.river(ctx) }) },
		func() *Report { return s.trial(ctx, few, func(t *Trial) *Report { return t.rowByRow(ctx) }) })
	report, worker, loop := best[0], best[1], best[2]
	report.Compared = []*Report{worker, loop}
	if p.Check {
		report.AtLeast("rate over row by row", report.EventsPerSecond/loop.EventsPerSecond, minSpeedUp)
		report.AtLeast("rate over River", report.EventsPerSecond/worker.EventsPerSecond, minOverRiver)
		report.checkShape()
	}
	return report
}

// clientDelay is how long the client library waits for a second message. Its own default is ten
// times longer and would make the others slower still.
const clientDelay = time.Millisecond

func (t *Trial) topic() *pubsub.Publisher {
	topic := t.to.fake.PubSub().Publisher(ordersAt)
	t.OnClose(func() error { topic.Stop(); return nil })
	topic.PublishSettings.DelayThreshold = clientDelay
	return topic
}

const (
	naiveBatch     = 50
	naiveSelectSQL = `
SELECT id::text, event_type, aggregate_type, aggregate_id, namespace, payload_json::text, created_at
  FROM outbox_events
 WHERE published_at IS NULL
 ORDER BY created_at
 LIMIT $1
   FOR UPDATE SKIP LOCKED`

	naiveMarkSQL = `UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid`
)

// rowByRow is one transaction per batch, and inside it publish a row, wait for the broker, mark it,
// take the next.
func (t *Trial) rowByRow(ctx context.Context) *Report {
	t.emit(ctx, t.Events)
	t.say("%s: row by row", t.Mode)
	report, topic, began := t.report(), t.topic(), time.Now()
	for left := true; left; {
		rig.Check(pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
			return rig.Carry(func() { left = naiveTurn(ctx, tx, topic) > 0 })
		}))
	}
	report.Mode, report.Publishers, report.Program = "row by row", 1, ""
	report.Took(time.Since(began))
	t.verify(ctx, report)
	return report
}

func naiveTurn(ctx context.Context, tx pgx.Tx, topic *pubsub.Publisher) int {
	type naiveRow struct {
		wire.Row
		body []byte
	}
	found := rig.Must(tx.Query(ctx, naiveSelectSQL, naiveBatch))
	rows := rig.Must(pgx.CollectRows(found, func(row pgx.CollectableRow) (n naiveRow, err error) {
		err = row.Scan(&n.ID, &n.EventType, &n.AggregateType, &n.AggregateID, &n.Namespace, &n.body, &n.CreatedAt)
		return n, err
	}))
	for _, row := range rows {
		rig.Must(topic.Publish(ctx, &pubsub.Message{Data: row.body, Attributes: wire.Attributes(row.Row)}).Get(ctx))
		rig.Must(tx.Exec(ctx, naiveMarkSQL, row.ID))
	}
	return len(rows)
}

// What makes River as fast as it gets here: many jobs at once, fetched as soon as there is room.
const (
	riverWorkers  = 1000
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverPool     = 20
	riverInsert   = 5000
)

// riverJob publishes one event.
type riverJob struct {
	Data string `json:"data"`
}

func (riverJob) Kind() string { return "event" }

type riverWorker struct {
	riverqueue.WorkerDefaults[riverJob]

	topic *pubsub.Publisher
}

func (w *riverWorker) Work(ctx context.Context, job *riverqueue.Job[riverJob]) error {
	_, err := w.topic.Publish(ctx, &pubsub.Message{Data: job.EncodedArgs}).Get(ctx)
	return err
}

// river measures from the client's start until its last job is completed.
func (t *Trial) river(ctx context.Context) *Report {
	pool := t.Pool(ctx, t.url, riverPool)
	driver := riverpgxv5.New(pool)
	rig.Must(rig.Must(rivermigrate.New(driver, nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &riverWorker{topic: t.topic()})
	client := rig.Must(riverqueue.NewClient(driver, &riverqueue.Config{
		Workers: workers, FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: riverWorkers}},
	}))
	args := riverJob{strings.Repeat("x", t.PayloadBytes)}
	for done := 0; done < t.Events; done += riverInsert {
		jobs := make([]riverqueue.InsertManyParams, min(riverInsert, t.Events-done))
		for i := range jobs {
			jobs[i].Args = args
		}
		rig.Must(client.InsertManyFast(ctx, jobs))
	}
	t.emitted = t.Events
	t.say("%s: a River worker", t.Mode)
	report, began := t.report(), time.Now()
	rig.Check(client.Start(ctx))
	// It asks seldom, and for one that is left: counting them would cost the one that is measured.
	rig.Await(ctx, slowPatience, "the jobs", func() (done bool) {
		rig.Check(pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM river_job WHERE state <> 'completed')`).Scan(&done))
		return done
	})
	report.Mode, report.Publishers, report.Program = "River worker", 1, ""
	report.Took(time.Since(began))
	rig.Check(client.Stop(ctx))
	var n int
	rig.Check(pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n))
	if n != t.Events {
		rig.Check(fmt.Errorf("%d of %d jobs are completed", n, t.Events))
	}
	return report
}
