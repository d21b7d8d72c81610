package main

import (
	"context"
	"errors"
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
	"github.com/outboxctl/outboxctl/internal/wait"
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
func river(ctx context.Context, events int) (rate float64, err error) {
	dir, err := os.MkdirTemp("", "figure-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL runs as another user
		return 0, err
	}
	servers, err := devstack.Start(ctx, devstack.Params{Dir: dir, Durable: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, servers.Stop(context.WithoutCancel(ctx))) }()
	topic, closeTopic, err := openTopic(ctx, servers.PubSub)
	if err != nil {
		return 0, err
	}
	defer closeTopic()
	config, err := pgxpool.ParseConfig(servers.Postgres.URL("postgres"))
	if err != nil {
		return 0, err
	}
	config.MaxConns = riverPool
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	client, err := newRiver(ctx, pool, topic)
	if err != nil {
		return 0, err
	}
	if err := fill(ctx, client, events); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	if err := completed(ctx, pool, events); err != nil {
		return 0, errors.Join(err, client.StopAndCancel(ctx))
	}
	took := time.Since(began)
	return float64(events) / took.Seconds(), client.Stop(ctx)
}

func newRiver(ctx context.Context, pool *pgxpool.Pool, topic *pubsub.Publisher) (*riverqueue.Client[pgx.Tx], error) {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &publishWorker{topic: topic})
	return riverqueue.NewClient(driver, &riverqueue.Config{
		Workers: workers, FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: riverWorkers}},
	})
}

func fill(ctx context.Context, client *riverqueue.Client[pgx.Tx], events int) error {
	args := event{Data: strings.Repeat("x", payloadBytes)}
	for done := 0; done < events; done += riverInsert {
		jobs := make([]riverqueue.InsertManyParams, min(riverInsert, events-done))
		for i := range jobs {
			jobs[i].Args = args
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// completed waits for the jobs. It asks seldom, and for one that is left: counting them would cost the one that is measured.
func completed(ctx context.Context, pool *pgxpool.Pool, events int) error {
	ctx, cancel := context.WithTimeout(ctx, riverPatience)
	defer cancel()
	for left := true; left; {
		if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM river_job WHERE state <> 'completed')`).Scan(&left); err != nil {
			return err
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	var n int
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n); err != nil {
		return err
	}
	if n != events {
		return fmt.Errorf("%d of %d jobs are completed", n, events)
	}
	return nil
}

func openTopic(ctx context.Context, server *devstack.PubSub) (*pubsub.Publisher, func(), error) {
	client, err := pubsub.NewClient(ctx, server.Project, option.WithEndpoint(server.Addr()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return nil, nil, err
	}
	name := "projects/" + server.Project + "/topics/figure"
	if _, err := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: name}); err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	topic := client.Publisher(name)
	topic.PublishSettings.DelayThreshold = time.Millisecond
	return topic, func() { topic.Stop(); _ = client.Close() }, nil
}
