package catalogue_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
)

// rowNamespace is the namespace that an event is written to.
func rowNamespace(t *testing.T, p emit.Prepared) string {
	t.Helper()
	var row struct{ Namespace string }
	require.NoError(t, json.Unmarshal(p.Row(), &row))
	return row.Namespace
}

// An emitter that is made with the catalogue of a namespace writes to that namespace, and to no other.
func TestEmitterWritesToItsNamespace(t *testing.T) {
	t.Parallel()
	own, err := catalogue.Build(catalogue.Document{Name: "mini-chat", Namespace: "mini-chat", Types: []catalogue.Type{
		{Name: "usage.turn_finalized", Topic: "usage", Aggregate: catalogue.None, Envelope: catalogue.None},
	}})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		emitter *emit.Emitter
		event   emit.Event
	}{
		"own":         {emit.New(own.In("mini-chat")), emit.For[map[string]any](nil, "usage.turn_finalized").Event("", map[string]any{"n": 1})},
		"packfinderz": {emit.New(catalogue.PackFinderz().In("mini-chat")), emit.Event{Type: "media_uploaded", AggregateID: "11111111-1111-7111-8111-111111111111", Data: struct{}{}}},
	} {
		prepared, err := c.emitter.Prepare(c.event)
		require.NoError(t, err, name)
		require.Equal(t, "mini-chat", rowNamespace(t, prepared), name)
		c.event.Namespace = "other"
		_, err = c.emitter.Prepare(c.event)
		require.ErrorContains(t, err, `must be mini-chat, whose catalogue the emitter has, not "other"`, name)
	}
	// An emitter of all namespaces leaves the choice to the event.
	prepared, err := emit.New(own).Prepare(emit.Event{Type: "usage.turn_finalized", Namespace: "mini-chat", Data: map[string]any{"n": 1}})
	require.NoError(t, err)
	require.Equal(t, "mini-chat", rowNamespace(t, prepared))
}

// A document without topics has those of its types, under the names that another document gives them.
func TestBuildFillsInTopics(t *testing.T) {
	t.Parallel()
	ready := []catalogue.Type{{Name: "order.ready", Topic: "orders", Aggregate: "order"}}
	c, err := catalogue.Build(catalogue.Document{Name: "a", Types: ready}, catalogue.Document{Name: "b", Namespace: "b", Types: ready})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"orders": "orders"}, c.Topics())
	c, err = catalogue.Build(catalogue.Document{Name: "a", Types: ready},
		catalogue.Document{Name: "b", Namespace: "b", Types: ready, Topics: map[string]string{"orders": "b-orders"}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"orders": "b-orders"}, c.Topics())
	_, err = catalogue.Build(catalogue.Document{Name: "a", Types: ready, Topics: map[string]string{"order": "x"}})
	require.ErrorContains(t, err, `topic "orders" is not among the topics`)
}
