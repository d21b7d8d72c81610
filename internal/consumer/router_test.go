package consumer_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

type anyMessage struct{}

func (anyMessage) Ack()  {}
func (anyMessage) Nack() {}

// answered is what was said of a message.
type answered string

func (a *answered) Ack()  { *a += "acknowledged" }
func (a *answered) Nack() { *a += "given back" }

// The inbox row is committed with the effect, so that Redis may forget; what a failed handler wrote is rolled back with it.
func TestRouterHandleTx(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(*consume.Router, consume.DB, func(context.Context, pgx.Tx, consume.Event) error){
		"one by one": func(r *consume.Router, db consume.DB, handler func(context.Context, pgx.Tx, consume.Event) error) {
			r.HandleTx("order.ready", db, handler)
		},
		"in batches": func(r *consume.Router, db consume.DB, handler func(context.Context, pgx.Tx, consume.Event) error) {
			r.HandleBatch("order.ready", db, consume.BatchOptions{}, func(ctx context.Context, tx pgx.Tx, events []consume.Event) error {
				return handler(ctx, tx, events[0])
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testHandleTx(t, register)
		})
	}
}

// A handler's trouble with another server is its own failure, not an outage of the database.
func TestANetworkErrorOfAHandlerIsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := consume.NewRouter(w.guard(consume.Options{}), consume.RouterOptions{Log: slog.New(slog.DiscardHandler)})
	_, refused := net.Dial("tcp", "127.0.0.1:1")
	r.HandleTx("order.ready", w.pool, func(context.Context, pgx.Tx, consume.Event) error { return refused })
	attributes := map[string]string{consume.AttrEventID: uuid.NewString(), consume.AttrEventType: "order.ready"}
	outcome, err := r.Deliver(t.Context(), anyMessage{}, attributes, nil)
	require.Equal(t, consume.Failed, outcome, "%v", err)
}

func testHandleTx(t *testing.T, register func(*consume.Router, consume.DB, func(context.Context, pgx.Tx, consume.Event) error)) {
	t.Helper()
	w := newWorld(t)
	_, err := w.pool.Exec(t.Context(), `CREATE TABLE doors (event_id uuid)`)
	require.NoError(t, err)
	guard := w.guard(consume.Options{})
	r := consume.NewRouter(guard, consume.RouterOptions{Log: slog.New(slog.DiscardHandler)})
	away := errors.New("away")
	fail := true
	register(r, w.pool, func(ctx context.Context, tx pgx.Tx, e consume.Event) error {
		_, err := tx.Exec(ctx, `INSERT INTO doors VALUES ($1)`, e.ID)
		if fail {
			err = away
		}
		return err
	})
	id := uuid.New()
	for _, step := range []struct {
		what    string
		prepare func()
		want    consume.Outcome
		effects int
	}{
		{"fails", func() {}, consume.Failed, 0},
		{"succeeds", func() { fail = false }, consume.Processed, 1},
		{"is known to Redis", func() {}, consume.Duplicate, 1},
		{"is known to the inbox only", func() { require.NoError(t, guard.Delete(t.Context(), id)) }, consume.DuplicateInbox, 1},
		{"is known to Redis again", func() {}, consume.Duplicate, 1},
	} {
		step.prepare()
		outcome, err := r.Deliver(t.Context(), anyMessage{}, map[string]string{consume.AttrEventID: id.String(), consume.AttrEventType: "order.ready"}, nil)
		require.Equal(t, step.want, outcome, "%s: %v", step.what, err)
		var effects int
		require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT count(*) FROM doors`).Scan(&effects))
		require.Equal(t, step.effects, effects, step.what)
	}
}
