package dlq_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// events makes events of every status and returns their ids in order of emission.
func (b *bundle) events(n int) (ids []string) {
	aggregate := uuid.NewString()
	for i := range n {
		d := death{At: base().Add(time.Duration(i) * time.Second), Type: []string{"order_canceled", "order_expired"}[i/4%2], Namespace: []string{"default", "eu"}[i%2]}
		if i%5 == 0 {
			d.AggregateID = aggregate
		}
		_, id := b.die(d)
		ids = append(ids, id)
		switch i % 4 {
		case 1:
			b.exec("UPDATE outbox_events SET dead_at = NULL, published_at = created_at + interval '1 minute' WHERE id = $1::text::uuid", id)
		case 2:
			b.exec("UPDATE outbox_events SET dead_at = NULL WHERE id = $1::text::uuid", id)
		case 3:
			b.exec("UPDATE outbox_events SET dead_at = NULL, locked_by = id, locked_until = now() + interval '1 hour' WHERE id = $1::text::uuid", id)
		}
	}
	return ids
}

func TestEventListsFilterAndPage(t *testing.T) {
	b := setup(t)
	ids := b.events(40)
	rows, err := b.store.Events(b.ctx, ids)
	require.NoError(t, err)
	aggregate := rows[0].AggregateID
	since, until := base().Add(7*time.Second), base().Add(21*time.Second)
	for name, tc := range map[string]struct {
		filter dlq.EventFilter
		wants  func(dlq.Event) bool
	}{
		"all":             {dlq.EventFilter{}, func(dlq.Event) bool { return true }},
		"published":       {dlq.EventFilter{Status: "published"}, func(e dlq.Event) bool { return e.Status == "published" }},
		"dead":            {dlq.EventFilter{Status: "dead"}, func(e dlq.Event) bool { return e.Status == "dead" }},
		"pending":         {dlq.EventFilter{Status: "pending"}, func(e dlq.Event) bool { return e.Status == "pending" }},
		"processing":      {dlq.EventFilter{Status: "processing"}, func(e dlq.Event) bool { return e.Status == "processing" }},
		"type":            {dlq.EventFilter{Types: []string{"order_expired"}}, func(e dlq.Event) bool { return e.EventType == "order_expired" }},
		"namespace":       {dlq.EventFilter{Status: "dead", Namespaces: []string{"eu"}}, func(e dlq.Event) bool { return e.Status == "dead" && e.Namespace == "eu" }},
		"aggregate":       {dlq.EventFilter{AggregateIDs: []string{aggregate}}, func(e dlq.Event) bool { return e.AggregateID == aggregate }},
		"aggregate, dead": {dlq.EventFilter{Status: "dead", AggregateIDs: []string{aggregate}}, func(e dlq.Event) bool { return e.AggregateID == aggregate && e.Status == "dead" }},
		"time":            {dlq.EventFilter{Since: since, Until: until}, func(e dlq.Event) bool { return !e.CreatedAt.Before(since) && e.CreatedAt.Before(until) }},
		"tenant":          {dlq.EventFilter{Tenants: []string{uuid.NewString()}}, func(dlq.Event) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, e := range slices.Backward(rows) {
				if tc.wants(e) {
					want = append(want, e.ID)
				}
			}
			scan, err := b.store.NewEventScan(tc.filter, dlq.NewestFirst, false)
			require.NoError(t, err)
			require.Equal(t, want, b.all(scan, 3))
			if len(want) < 4 {
				return
			}
			rest, err := b.store.NewEventScan(tc.filter, dlq.NewestFirst, false)
			require.NoError(t, err)
			require.NoError(t, rest.After(b.ctx, want[2]))
			require.Equal(t, want[3:], b.all(rest, 100))
		})
	}
}

func TestNeighboursStandAroundTheEvent(t *testing.T) {
	b := setup(t)
	aggregate := uuid.NewString()
	var ids []string
	for i := range 9 {
		_, id := b.die(death{AggregateID: aggregate, At: base().Add(time.Duration(i/3) * time.Second)}) // three share each time
		ids = append(ids, id)
	}
	b.die(death{})
	near, err := b.store.Neighbours(b.ctx, "vendor_order", aggregate, ids[4], base(), 2)
	require.NoError(t, err)
	var got []string
	for _, e := range near {
		got = append(got, e.ID)
	}
	require.Equal(t, []string{ids[2], ids[3], ids[5], ids[6]}, got)
}

// What is exported can be emitted as it is, is a new event, names the old one, and is one event however often it is emitted.
func TestAnExportCanBeEmitted(t *testing.T) {
	b := setup(t)
	tenant := uuid.NewString()
	id, event := b.die(death{Tenant: &tenant, Namespace: "eu"})
	exports, err := b.store.Export(b.ctx, []dlq.Target{{ID: id}, {Given: "unknown"}})
	require.NoError(t, err)
	require.Len(t, exports, 1)
	line, err := json.Marshal(exports[0])
	require.NoError(t, err)

	emitter := emit.New(registry.New())
	params, err := emit.DecodeEvent(line)
	require.NoError(t, err, string(line))
	var emitted []string
	for range 2 {
		tx, err := b.pool.Begin(b.ctx)
		require.NoError(t, err)
		res, err := emitter.Emit(b.ctx, tx, params)
		require.NoError(t, err, string(line))
		require.NoError(t, tx.Commit(b.ctx))
		emitted = append(emitted, res.ID.String())
	}
	require.Equal(t, emitted[0], emitted[1])
	require.NotEqual(t, event, emitted[0])
	fresh, err := b.store.EventContent(b.ctx, emitted[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"traceparent": "00-1", "corrects_event_id": "`+event+`"}`, string(fresh.Headers))
	row, err := b.store.Event(b.ctx, emitted[0])
	require.NoError(t, err)
	require.Equal(t, []any{"eu", tenant, "order_canceled"}, []any{row.Namespace, *row.TenantID, row.EventType})
}

// An event that died of its payload is exported too, so that it can be mended.
func TestAnExportKeepsWhatIsBroken(t *testing.T) {
	b := setup(t)
	id, _ := b.die(death{})
	b.exec("ALTER TABLE outbox_dlq DISABLE TRIGGER USER")
	for _, payload := range []string{`"text"`, `[1]`, `{"no": "envelope"}`, `{"data": null}`} {
		b.exec(`UPDATE outbox_dlq SET payload_json = $1::text::jsonb, headers = '{"n": 1}' WHERE id = $2::text::uuid`, payload, id)
		exports, err := b.store.Export(b.ctx, []dlq.Target{{ID: id}})
		require.NoError(t, err)
		require.True(t, json.Valid([]byte(mustJSON(exports[0]))), payload)
		require.NotEmpty(t, exports[0].Data)
	}
}

func TestSuggestionsComeFromTheDatabase(t *testing.T) {
	b := setup(t)
	open, event := b.die(death{Topic: "billing", Error: "no route"})
	handled, _ := b.die(death{State: "replayed"})
	found, err := b.store.SuggestEntries(b.ctx, "open", open[:8])
	require.NoError(t, err)
	require.Equal(t, []dlq.Suggestion{{Value: open, About: "order_canceled max_attempts: no route"}}, found)
	found, err = b.store.SuggestEntries(b.ctx, "", "")
	require.NoError(t, err)
	require.Len(t, found, 2)
	found, err = b.store.SuggestEntries(b.ctx, "", "' OR true")
	require.NoError(t, err)
	require.Empty(t, found)
	found, err = b.store.SuggestEvents(b.ctx, "dead", event)
	require.NoError(t, err)
	require.Equal(t, []dlq.Suggestion{{Value: event, About: "dead order_canceled"}}, found)
	found, err = b.store.SuggestGroups(b.ctx, "topic")
	require.NoError(t, err)
	require.Equal(t, []dlq.Suggestion{{Value: "billing", About: "no route"}}, found)
	reasons, err := b.store.EnumValues(b.ctx, "outbox_dlq_reason")
	require.NoError(t, err)
	require.Equal(t, []string{"max_attempts", "unknown_event_type", "invalid_payload", "aggregate_mismatch", "message_too_large", "rejected_by_broker"}, reasons)
	require.NotEmpty(t, handled)
}
