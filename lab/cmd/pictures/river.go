package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// What makes River as fast as it gets here: many jobs at once, fetched as soon as there is room.
const (
	riverWorkers  = 1000
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverPool     = 20
	riverInsert   = 5000
	riverPatience = 5 * time.Minute
	payloadBytes  = 400 // what bench gives an event
)

// event is a job that publishes one event.
type event struct {
	Data string `json:"data"`
}

func (event) Kind() string { return "event" }

type publishWorker struct {
	riverqueue.WorkerDefaults[event]

	topic *pubsub.Publisher
}

func (w *publishWorker) Work(ctx context.Context, job *riverqueue.Job[event]) error {
	_, err := w.topic.Publish(ctx, &pubsub.Message{Data: job.EncodedArgs}).Get(ctx)
	return err
}

// river measures from the client's start until its last job is completed.
func river(ctx context.Context, events int) float64 {
	w := &rig.World{Dir: rig.StateDir("")}
	defer func() { _ = w.Close() }()
	w.OnClose(func() error { return os.RemoveAll(w.Dir) })
	w.StartPostgres(ctx, devstack.PostgresParams{Dir: w.Dir, Durable: true})
	w.StartBroker(ctx, rig.NewBroker(nil, func(time.Time, devstack.PublishAnswer) {}))
	pool := w.Pool(ctx, w.Postgres.URL("postgres"), riverPool)
	client := newRiver(ctx, pool, openTopic(ctx, w))
	fill(ctx, client, events)
	began := time.Now()
	rig.Check(client.Start(ctx))
	w.OnClose(func() error { return client.Stop(ctx) })
	completed(ctx, pool, events)
	return float64(events) / time.Since(began).Seconds()
}

func newRiver(ctx context.Context, pool *pgxpool.Pool,
	topic *pubsub.Publisher) *riverqueue.Client[pgx.Tx] {
	driver := riverpgxv5.New(pool)
	rig.Must(rig.Must(rivermigrate.New(driver, nil)).Migrate(ctx, rivermigrate.DirectionUp, nil))
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &publishWorker{topic: topic})
	return rig.Must(riverqueue.NewClient(driver, &riverqueue.Config{
		Workers: workers, FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: riverWorkers}},
	}))
}

func fill(ctx context.Context, client *riverqueue.Client[pgx.Tx], events int) {
	args := event{Data: strings.Repeat("x", payloadBytes)}
	for done := 0; done < events; done += riverInsert {
		jobs := make([]riverqueue.InsertManyParams, min(riverInsert, events-done))
		for i := range jobs {
			jobs[i].Args = args
		}
		rig.Must(client.InsertManyFast(ctx, jobs))
	}
}

// completed waits for the jobs. It asks seldom, and for one that is left: counting them would cost
// the one that is measured.
func completed(ctx context.Context, pool *pgxpool.Pool, events int) {
	rig.Await(ctx, riverPatience, "the jobs", func() (done bool) {
		rig.Check(pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM river_job WHERE state <> 'completed')`).Scan(&done))
		return done
	})
	var n int
	rig.Check(pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n))
	if n != events {
		rig.Check(fmt.Errorf("%d of %d jobs are completed", n, events))
	}
}

func openTopic(ctx context.Context, w *rig.World) *pubsub.Publisher {
	client := rig.Must(pubsub.NewClient(ctx, w.Broker.Project, option.WithEndpoint(w.Broker.Addr()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))))
	w.OnClose(client.Close)
	name := "projects/" + w.Broker.Project + "/topics/figure"
	rig.Must(client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: name}))
	topic := client.Publisher(name)
	w.OnClose(func() error { topic.Stop(); return nil })
	topic.PublishSettings.DelayThreshold = time.Millisecond
	return topic
}
