package bench

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// A figure is worth what its verification is worth: each way to be wrong is seen.
func TestVerifySeesEveryFault(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		tamper func(*received)
		want   Delivery
	}{
		{"exact", func(*received) {}, Delivery{Expected: 3, Arrived: 3}},
		{"missing", func(r *received) { r.messages = r.messages[1:] }, Delivery{Expected: 3, Arrived: 2, Missing: 1}},
		{"doubled", func(r *received) { r.messages = append(r.messages, r.messages[0]) }, Delivery{Expected: 3, Arrived: 3, Duplicates: 1}},
		{"another body", func(r *received) { r.messages[0].Data = []byte(`{}`) }, Delivery{Expected: 3, Arrived: 3, Changed: 1}},
		{"another attribute", func(r *received) { r.messages[0].Attributes["created_at"] = "now" }, Delivery{Expected: 3, Arrived: 3, Changed: 1}},
		{"one attribute more", func(r *received) { r.messages[0].Attributes["x"] = "y" }, Delivery{Expected: 3, Arrived: 3, Changed: 1}},
		{"doubled, once changed", func(r *received) {
			again := r.messages[0]
			again.Data = []byte(`{}`)
			r.messages = append([]dispatch.Message{again}, r.messages...)
		}, Delivery{Expected: 3, Arrived: 3, Duplicates: 1, Changed: 1}},
		{"an unknown event", func(r *received) {
			r.messages = append(r.messages, dispatch.Message{Attributes: map[string]string{"event_id": uuid.NewString()}})
		}, Delivery{Expected: 3, Arrived: 3, Unknown: 1}},
		{"no event id", func(r *received) { r.messages = append(r.messages, dispatch.Message{}) }, Delivery{Expected: 3, Arrived: 3, Unknown: 1}},
		{"not marked", func(r *received) { r.unmarked = true }, Delivery{Expected: 3, Arrived: 3, Unsettled: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			db := outboxtest.DB(t)
			got := receive(t, db, tc.tamper)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.name == "exact", got.Exact())
		})
	}
}

type received struct {
	messages []dispatch.Message
	unmarked bool
}

// receive emits three events, lets a broker receive them as tampered with, and
// returns the verdict.
func receive(t *testing.T, db *outboxtest.Database, tamper func(*received)) Delivery {
	t.Helper()
	r := &Trial{Params: Params{PayloadBytes: 400}, registry: registry.New(), DB: &Database{Pool: db.Pool}}
	require.NoError(t, r.Emit(t.Context(), 3))
	rows, err := db.Pool.Query(t.Context(), `SELECT id::text, event_type::text, aggregate_type::text, aggregate_id::text, payload_json::text, created_at FROM outbox_events`)
	require.NoError(t, err)
	var all received
	for rows.Next() {
		var id, eventType, aggregateType, aggregateID string
		var payload []byte
		var createdAt time.Time
		require.NoError(t, rows.Scan(&id, &eventType, &aggregateType, &aggregateID, &payload, &createdAt))
		all.messages = append(all.messages, dispatch.Message{Data: payload, Attributes: wire.Attributes(wire.Row{ID: id, EventType: eventType, AggregateType: aggregateType, AggregateID: aggregateID, Namespace: Measured, CreatedAt: createdAt})})
	}
	require.NoError(t, rows.Err())
	tamper(&all)
	marked := 3
	if all.unmarked {
		marked = 2
	}
	_, err = db.Pool.Exec(t.Context(), `UPDATE outbox_events SET published_at = now() WHERE id IN (SELECT id FROM outbox_events LIMIT $1)`, marked)
	require.NoError(t, err)

	recorder := newRecorder(3)
	recorder.record(len(all.messages), func(i int) ([]byte, map[string]string) { return all.messages[i].Data, all.messages[i].Attributes })
	delivery, err := recorder.verify(t.Context(), &Database{Pool: db.Pool})
	require.NoError(t, err)
	return delivery
}

func TestReportJudges(t *testing.T) {
	t.Parallel()
	r := &Report{}
	require.True(t, r.Passed())
	r.AtLeast("a", 2, 2)
	r.AtMost("b", 2, 2)
	require.True(t, r.Passed())
	r.AtMost("c", 2.1, 2)
	require.False(t, r.Passed())
	require.Equal(t, Check{Name: "c", Want: "≤ 2", Got: 2.1}, r.Checks[2])
}
