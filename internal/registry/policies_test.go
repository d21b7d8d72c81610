package registry_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

const rowID = "018f3f6e-0000-7000-8000-00000000000a"

func stored(headers int) *dispatch.Claimed {
	row := &dispatch.Claimed{Key: dispatch.Key{ID: rowID}, EventType: "a", AggregateType: "order", AggregateID: "1", Namespace: "default", DedupeKey: "d"}
	row.Payload = []byte(`{"version": 1, "eventId": "018f3f6e-0000-7000-8000-0000000000ff", "occurredAt": "2026-01-01T00:00:00Z", "data": {}}`)
	if headers > 0 {
		all := map[string]string{}
		for i := range headers {
			all[fmt.Sprintf("h%d", i)] = "v"
		}
		row.Headers, _ = json.Marshal(all) // texts always encode
	}
	return row
}

// An event whose envelope has another id than its row dies only where its type says so, one whose headers leave no room
// for the attributes always.
func TestWhatAnOldEmitterWroteIsPublished(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind    catalogue.Type
		headers int
		problem string
	}{
		"another id":                  {},
		"another id, refused":         {kind: catalogue.Type{EnvelopeID: catalogue.Refuse}, problem: "eventId"},
		"headers and all attributes":  {headers: 92},
		"no room for the newer three": {headers: 95, problem: "attributes"},
	} {
		tc.kind.Name = "a"
		c, err := catalogue.Build(document("*", tc.kind))
		require.NoError(t, err, name)
		_, bad := dispatch.Examine(c, func(string) wire.Limits { return wire.PubSubLimits() }, stored(tc.headers))
		if tc.problem == "" {
			require.NoError(t, bad, name)
		} else {
			require.ErrorContains(t, bad, tc.problem, name)
		}
	}
}

// Who looked at another revision than the one that is there records nothing.
func TestAnotherRevisionIsNotRecordedOver(t *testing.T) {
	t.Parallel()
	pool := outboxtest.ShapedDB(t, outboxtest.Shapes()[1]).Pool
	record(t, pool, "ann", document("*", catalogue.Type{Name: "a"}))
	c, err := catalogue.Build(document("*", catalogue.Type{Name: "a"}, catalogue.Type{Name: "b"}))
	require.NoError(t, err)
	seen := int64(0)
	_, err = c.Record(t.Context(), pool, catalogue.RecordParams{Revision: &seen})
	require.ErrorIs(t, err, catalogue.ErrChanged)
	recorded, err := catalogue.Recorded(t.Context(), pool)
	require.NoError(t, err)
	require.EqualValues(t, 1, recorded.Revision)
	_, there := recorded.Catalogue.Find("", "b")
	require.False(t, there)
}

// A catalogue of one's own works on a table whose aggregate ids are integers.
func TestIntegerIDsWithACatalogueOfOnesOwn(t *testing.T) {
	t.Parallel()
	pool := outboxtest.ShapedDB(t, outboxtest.Shapes()[3]).Pool
	c := record(t, pool, "ann", document("*", catalogue.Type{Name: "order.ready"}))
	_, err := pool.Exec(t.Context(), `SELECT outbox_emit('order.ready', 'order', 42, '{}'), outbox_emit('order.ready', 'order', 43::bigint, '{}'), outbox_emit('order.ready', NULL, '44', '{}')`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `SELECT outbox_emit('order.ready', 'order', 'x', '{}')`)
	require.ErrorContains(t, err, "x")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = emit.New(c).Emit(t.Context(), tx, emit.Event{Type: "order.ready", AggregateID: "45", Data: struct{}{}})
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	var ids []int64
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT array_agg(aggregate_id ORDER BY aggregate_id) FROM outbox_events`).Scan(&ids))
	require.Equal(t, []int64{42, 43, 44, 45}, ids)
}
