package demo

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// schemas says what the traffic of a catalogue has to cope with.
func schemas() map[string]catalogue.Schema {
	return map[string]catalogue.Schema{
		"any":    catalogue.Any,
		"object": catalogue.Object,
		"flat": `{"type": "object", "required": ["id", "at", "state", "n"], "additionalProperties": false, "properties": {
			"id": {"type": "string", "format": "uuid"}, "at": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"},
			"state": {"enum": ["a", "b"]}, "n": {"type": "integer", "minimum": 3, "exclusiveMaximum": 6}, "price": {"type": "number", "multipleOf": 0.25, "maximum": -1},
			"short": {"type": "string", "maxLength": 4}, "long": {"type": "string", "minLength": 80}, "mail": {"format": "email", "type": "string"},
			"null": {"type": "null"}, "maybe": {"type": ["null", "boolean"]}, "fixed": {"const": {"x": 1}}}}`,
		"bundled": `{"$id": "catalogue:///a.json", "type": "object", "required": ["id"], "properties": {"id": {"$ref": "common.json#/$defs/id"}},
			"$defs": {"catalogue:///common.json": {"$id": "catalogue:///common.json", "$defs": {"id": {"$ref": "#/$defs/n"}, "n": {"type": "integer"}}}}}`,
		"nested": `{"type": "object", "required": ["lines", "by", "extra"], "properties": {
			"lines": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"$ref": "#/$defs/line"}}, "by": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
			"pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": false}, "extra": {"type": "object", "additionalProperties": {"type": "integer"}}},
			"allOf": [{"required": ["tenant"], "properties": {"tenant": {"type": "string"}}}],
			"$defs": {"line": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}, "of": {"$ref": "#/$defs/line"}}}}}`,
	}
}

func made(t *testing.T) *catalogue.Catalogue {
	t.Helper()
	var types []catalogue.Type
	for name, schema := range schemas() {
		types = append(types, catalogue.Type{Name: "made." + name, Topic: "made", Aggregate: "thing", Schema: schema})
	}
	types = append(types, catalogue.Type{Name: "made.pattern", Topic: "made", Aggregate: "thing", Schema: `{"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^[0-9]{40}$"}}}`})
	topics := map[string]string{"made": "made"}
	c, err := catalogue.Build(catalogue.Document{Name: "made", Topics: topics, Types: types}, catalogue.Document{
		Name: "bare", Namespace: "chat", Topics: topics,
		Types: []catalogue.Type{{Name: "usage.done", Topic: "made", Aggregate: catalogue.None, Envelope: catalogue.None, Schema: catalogue.Any}},
	})
	require.NoError(t, err)
	return c
}

// What is made up fits its schema at the first try, whatever the seed.
func TestPayloadsFitTheirSchema(t *testing.T) {
	t.Parallel()
	c := made(t)
	for name, schema := range schemas() {
		for seed := range uint64(300) {
			data, err := (&sample{random: rand.New(rand.NewPCG(seed, 1)), now: noon}).payload(schema.JSON())
			require.NoError(t, err, name)
			require.NoError(t, c.Validate("made."+name, data), "%s: %s", name, data)
		}
	}
}

// Of every type there are good events; the bad ones are those that the publisher refuses, and there are some of each kind.
func TestGeneratedTrafficIsJudgedAsItIsMeant(t *testing.T) {
	t.Parallel()
	db := outboxtest.ShapedDB(t, outboxtest.Shapes()[1])
	c := made(t)
	require.NoError(t, c.Apply(t.Context(), db.Pool))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last Report
	traffic, skipped, err := Generated(Params{Seed: 1, Rate: 5_000, Now: time.Now}, db.Pool, emit.New(c), c, func(r Report) {
		if last = r; r.Faulty >= 8 {
			cancel()
		}
	})
	require.NoError(t, err)
	require.Len(t, skipped, 1)
	require.ErrorContains(t, skipped["made.pattern"], "data.a")
	require.NoError(t, traffic.Run(ctx))

	rows, err := db.Pool.Query(t.Context(), `SELECT id::text, namespace, event_type, aggregate_type, aggregate_id, payload_json::text, coalesce(headers::text, '') FROM outbox_events`)
	require.NoError(t, err)
	defer rows.Close()
	reasons, good := map[string]int{}, map[string]int{}
	for rows.Next() {
		var row dispatch.Claimed
		var headers string
		require.NoError(t, rows.Scan(&row.ID, &row.Namespace, &row.EventType, &row.AggregateType, &row.AggregateID, &row.Payload, &headers))
		row.Headers = json.RawMessage(headers)
		if reason, bad := dispatch.Examine(c, wire.PubSubLimits(), &row); bad != nil {
			reasons[string(reason)]++
		} else {
			good[row.EventType]++
		}
	}
	require.NoError(t, rows.Err())
	require.Len(t, good, len(schemas())+1)
	require.Equal(t, last.Faulty, reasons["invalid_payload"]+reasons["unknown_event_type"]+reasons["message_too_large"], reasons)
	require.Len(t, reasons, 3, reasons)
}
