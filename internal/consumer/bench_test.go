package consumer_test

import (
	"fmt"
	"testing"

	"cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	kind "github.com/outboxctl/outboxctl/internal/broker"
	broker "github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/consumer"
)

// widePool has as many connections as the command gives the worker: a commit
// waits for the disk, and commits that wait together share one flush.
func widePool(b *testing.B, url string) *pgxpool.Pool {
	b.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(b, err)
	config.MaxConns = consumer.DefaultConnections
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	return pool
}

// BenchmarkWorker drains a waiting subscription through the whole consumer:
// Pub/Sub fake, Redis, handler, inbox, acknowledgement.
//
//	go test -run '^$' -bench Worker -benchtime 20000x ./internal/consumer
func BenchmarkWorker(b *testing.B) {
	for _, streams := range []int{16, broker.EmulatorStreams, 128} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			w := newWorld(b)
			pool := widePool(b, w.dbURL)
			msgs := make([]*pubsub.Message, b.N)
			for i := range msgs {
				msgs[i] = license(uuid.Must(uuid.NewV7()), "verified", "")
			}
			w.publish(msgs...)
			source := sourceOf(w.client, kind.SourceParams{Subscription: subscription, Concurrency: consumer.DefaultConcurrency, Streams: streams})
			worker := consumer.New(source, w.guard(consume.Options{}), consumer.Config{Count: int64(b.N)})
			worker.Router.HandleBatch(notifications.EventType, pool, consume.BatchOptions{}, notifications.Write)
			b.ResetTimer()
			report, err := worker.Run(b.Context())
			b.StopTimer()
			require.NoError(b, err)
			require.EqualValues(b, b.N, report.Processed)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
