package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/migrate"
)

// usage is the catalogue of a program with payloads of its own.
func usage(t *testing.T) *catalogue.Catalogue {
	t.Helper()
	types, err := catalogue.New("mini-chat", catalogue.Type{
		Name: "usage.turn_finalized", Topic: "usage", Aggregate: catalogue.None, Schema: catalogue.Any, Envelope: catalogue.None,
	})
	require.NoError(t, err)
	return types
}

// textOutbox is a database with text types and that catalogue, made with the public packages alone.
func textOutbox(t *testing.T) (*outboxtest.Database, *catalogue.Catalogue) {
	t.Helper()
	db, types := outboxtest.EmptyDB(t), usage(t)
	plan, err := migrate.Survey(t.Context(), db.Pool, migrate.Options{Types: migrate.Text})
	require.NoError(t, err)
	require.False(t, plan.Exists)
	done, err := migrate.Up(t.Context(), db.Pool, migrate.Options{Types: migrate.Text})
	require.NoError(t, err)
	require.NotEmpty(t, done.Ran)
	require.NoError(t, types.Apply(t.Context(), db.Pool))
	return db, types
}

var tenant = uuid.MustParse("018f3f6e-0000-7000-8000-000000000001")

func emitTurns(t *testing.T, pool *pgxpool.Pool, types *catalogue.Catalogue, n int) {
	t.Helper()
	events := make([]emit.Event, n)
	for i := range events {
		events[i] = emit.Event{Type: "usage.turn_finalized", Data: map[string]int{"turn": i}, TenantID: tenant, DedupeKey: fmt.Sprintf("%s/turn-%d", tenant, i)}
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := emit.New(types).EmitAll(t.Context(), tx, events)
		return err
	}))
}

// took collects what a function was given.
type took struct {
	mu    sync.Mutex
	turns []dispatch.Message
}

func (k *took) take(_ context.Context, topic string, m dispatch.Message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if topic != "usage" {
		return errors.New("another topic")
	}
	k.turns = append(k.turns, m)
	return nil
}

func (k *took) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.turns)
}

func TestOnceHandsOverWhatWaits(t *testing.T) {
	t.Parallel()
	db, types := textOutbox(t)
	emitTurns(t, db.Pool, types, 100)
	var got took
	metrics := prometheus.NewRegistry()
	d, err := dispatch.New(t.Context(), dispatch.Config{
		URL: db.URL, Catalogue: types, Publisher: dispatch.Each(got.take, 4), Metrics: metrics,
	})
	require.NoError(t, err)
	require.NoError(t, d.Ready(t.Context()))
	done, err := d.Once(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(100), done.Published)
	require.Equal(t, 100, got.count())
	m := got.turns[0]
	require.Equal(t, "default", m.Namespace)
	require.Equal(t, tenant.String(), m.TenantID)
	require.Contains(t, m.DedupeKey, "turn-")
	require.Equal(t, 1, m.Attempt)
	require.Equal(t, "usage.turn_finalized", m.Attributes["event_type"])
	require.Equal(t, int64(100), d.State().Published)
	require.Equal(t, "usage", d.State().Topics[0].Topic)
	found, err := testutil.GatherAndCount(metrics, "outbox_published_total")
	require.NoError(t, err)
	require.Equal(t, 1, found)

	require.Equal(t, "usage.turn_finalized", m.EventType)
	require.Positive(t, m.Seq)
	require.Empty(t, m.CopyOf)

	_, err = db.Pool.Exec(t.Context(), `SELECT outbox_change('event.republish', ARRAY[$1::text::uuid], 'ann')`, m.EventID)
	require.NoError(t, err)
	done, err = d.Once(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), done.Published, "a second run counts for itself")
	require.Equal(t, m.EventID, got.turns[100].EventID)
	require.Equal(t, m.EventID, got.turns[100].CopyOf, "a function answers with the event's id")
	d.Close()
	found, err = testutil.GatherAndCount(metrics)
	require.NoError(t, err)
	require.Zero(t, found, "the metrics are given back")
}

// Run is woken by commits, shows itself to operators, counts attempts, and ends when told.
func TestRunUntilTold(t *testing.T) {
	t.Parallel()
	db, types := textOutbox(t)
	attempts := make(chan int, 10)
	var log bytes.Buffer
	d, err := dispatch.New(t.Context(), dispatch.Config{
		Claims: outboxtest.Pool(t, db.URL), Settles: outboxtest.Pool(t, db.URL), // and the recorded catalogue
		Publisher: dispatch.Each(func(_ context.Context, _ string, m dispatch.Message) error {
			attempts <- m.Attempt
			if m.Attempt == 1 {
				panic("the first time")
			}
			return nil
		}, 4),
		Tuning: dispatch.Tuning{BackoffBase: time.Millisecond, BackoffMax: 2 * time.Millisecond},
		Log:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	defer d.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	emitTurns(t, db.Pool, types, 1)
	require.Equal(t, 1, <-attempts)
	require.Equal(t, 2, <-attempts)
	require.ErrorIs(t, d.Run(ctx), dispatch.ErrRunning)
	require.Eventually(t, func() bool {
		var version string
		err := db.Pool.QueryRow(t.Context(), `SELECT coalesce(min(version), '') FROM outbox_publishers`).Scan(&version)
		return err == nil && strings.Contains(version, "embedded")
	}, time.Minute, 10*time.Millisecond, "its heartbeat goes beside its work")
	stop()
	require.NoError(t, <-ended)
	require.Contains(t, log.String(), "publishing panicked: the first time")
	require.Contains(t, log.String(), "dispatcher_test.go", "where it panicked")
	var left int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM outbox_publishers) + (SELECT count(*) FROM outbox_events WHERE published_at IS NULL)`).Scan(&left))
	require.Zero(t, left)
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	nothing := dispatch.Each(func(context.Context, string, dispatch.Message) error { return nil }, 1)
	for _, tc := range []struct {
		name string
		cfg  dispatch.Config
		want string
	}{
		{"nothing", dispatch.Config{}, "give URL, or Claims and Settles: two different pools\ngive a Publisher"},
		{"one pool", dispatch.Config{Claims: db.Pool, Settles: db.Pool, Publisher: nothing}, "two different pools"},
		{"both", dispatch.Config{URL: db.URL, Claims: db.Pool, Publisher: nothing}, "not both"},
		{"a short lease", dispatch.Config{URL: db.URL, Publisher: nothing, Tuning: dispatch.Tuning{Lease: time.Second}}, "lease 1s must be longer"},
		{"no outbox", dispatch.Config{URL: db.URL, Publisher: nothing}, "look at the outbox"},
		{"no URL", dispatch.Config{URL: "postgres://x:secret@/%zz", Publisher: nothing}, "read the database's URL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d, err := dispatch.New(t.Context(), tc.cfg)
			require.Nil(t, d)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}
