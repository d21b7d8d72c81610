package migrate_test

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// Path B of docs/adoption.md: a trigger on another table hands its rows over while a job publishes what it finds there.
// Switched on, off and on under load, every event is in exactly one of the two places.
func TestRelayTriggerNeitherLosesNorDoubles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/adoption.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```sql\n-- path B\n")
	require.True(t, ok)
	trigger, _, _ := strings.Cut(rest, "```")

	pool := outboxtest.ShapedDB(t, outboxtest.Shapes()[1]).Pool
	record(t, pool, "*", "order.ready", "order", "standard")
	exec(t, pool, `CREATE TABLE my_outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), event_type text, aggregate_id bigint, payload jsonb, delivered_at timestamptz);
		CREATE TABLE sent (id uuid)`)

	const job = `WITH taken AS (SELECT id FROM my_outbox WHERE delivered_at IS NULL LIMIT 20 FOR UPDATE SKIP LOCKED),
		marked AS (UPDATE my_outbox AS m SET delivered_at = now() FROM taken WHERE m.id = taken.id RETURNING m.id)
		INSERT INTO sent SELECT id FROM marked`
	var inserted atomic.Int64
	var producers, cron sync.WaitGroup
	stop, ended := make(chan struct{}), make(chan struct{})
	failed := make(chan error, 8)
	loop := func(until <-chan struct{}, statement string, then func()) {
		for {
			select {
			case <-until:
				return
			default:
			}
			if _, err := pool.Exec(t.Context(), statement); err != nil {
				failed <- err
				return
			}
			then()
		}
	}
	for range 2 {
		producers.Go(func() {
			loop(stop, `INSERT INTO my_outbox (event_type, aggregate_id, payload) VALUES ('order.ready', 42, '{}')`, func() { inserted.Add(1) })
		})
	}
	cron.Go(func() { loop(ended, job, func() {}) })
	more := func() {
		target := inserted.Load() + 150
		require.Eventually(t, func() bool { return inserted.Load() >= target || len(failed) > 0 }, time.Minute, 5*time.Millisecond)
	}
	more()
	exec(t, pool, trigger)
	for _, state := range []string{"DISABLE", "ENABLE"} {
		more()
		exec(t, pool, "ALTER TABLE my_outbox "+state+" TRIGGER my_outbox_relay")
	}
	more()
	close(stop)
	producers.Wait()
	eventually(t, pool, `SELECT NOT EXISTS (SELECT FROM my_outbox WHERE delivered_at IS NULL)`)
	close(ended)
	cron.Wait()
	require.Empty(t, failed)
	require.Equal(t, inserted.Load(), queryOne[int64](t, pool, `SELECT count(*) FROM (SELECT id FROM sent UNION ALL SELECT id FROM outbox_events) AS e`))
	require.Equal(t, inserted.Load(), queryOne[int64](t, pool, `SELECT count(*) FROM my_outbox WHERE (id IN (SELECT id FROM sent)) <> (id IN (SELECT id FROM outbox_events))`))
	require.Positive(t, queryOne[int64](t, pool, `SELECT count(*) FROM sent`))
	require.Positive(t, queryOne[int64](t, pool, `SELECT count(*) FROM outbox_events`))
}
