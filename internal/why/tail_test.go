package why_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A tail shows each new event once: also one that is published before the next look, one whose transaction commits after
// that of a later one, and one whose id does not tell when it was made. What was there before is not new.
func TestTailShowsEachNewEventOnce(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	insert := func(id, publishedAt string) string {
		return `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
			VALUES (` + id + `, 'license_status_changed', 'license', outbox_uuid_v7(), '{"version":1}', ` + publishedAt + `) RETURNING id::text`
	}
	emit := func(id, publishedAt string) (made string) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), insert(id, publishedAt)).Scan(&made))
		return made
	}
	emit("outbox_uuid_v7()", "NULL")
	emit("outbox_uuid_v7()", "now()")

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	shown := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- dlq.New(db.Pool, nil).TailEvents(ctx, outbox.TailEventsParams{Every: time.Millisecond}, func(e outbox.Event) error {
			shown <- e.ID
			return nil
		})
	}()
	// Until the first is shown it is not known whether the tail has begun.
	first := ""
	for first == "" && ctx.Err() == nil {
		emit("outbox_uuid_v7()", "NULL")
		select {
		case first = <-shown:
		case <-time.After(50 * time.Millisecond):
		}
	}
	tx, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	var late string
	require.NoError(t, tx.QueryRow(t.Context(), insert("outbox_uuid_v7()", "NULL")).Scan(&late))
	want := []string{emit("outbox_uuid_v7()", "now()"), emit("gen_random_uuid()", "NULL")}
	require.NoError(t, tx.Commit(t.Context()))
	want = append(want, late)

	count := map[string]int{first: 1}
	for range want {
		for seen := 0; seen == 0; {
			select {
			case id := <-shown:
				count[id]++
				for _, w := range want {
					if w == id {
						seen++
					}
				}
			case <-ctx.Done():
				t.Fatalf("shown so far: %v, missing some of %v", count, want)
			}
		}
	}
	stop()
	require.NoError(t, <-done)
	for len(shown) > 0 {
		count[<-shown]++
	}
	for id, n := range count {
		require.Equal(t, 1, n, id)
	}
}

// An event of such a type can never come, and a look that finds no event does not notice.
func TestATypeThatCannotComeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	err := dlq.New(outboxtest.DB(t).Pool, nil).TailEvents(ctx, outbox.TailEventsParams{
		Every: time.Millisecond, Filter: outbox.Filter{Types: []string{"order_cancelled"}},
	}, func(outbox.Event) error { return nil })
	require.ErrorContains(t, err, "order_cancelled")
}
