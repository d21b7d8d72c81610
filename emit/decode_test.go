package emit_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	. "github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
)

func TestDecodeEventReadsEveryField(t *testing.T) {
	t.Parallel()
	got, err := DecodeEvent([]byte(`{"type":"ad_paused","aggregateId":"018f3f6e-0000-7000-8000-00000000000a","aggregateType":"ad",` +
		`"data":{"x":[1, 2]},"dedupeKey":"k","tenantId":"018f3f6e-0000-7000-8000-0000000000aa","namespace":"shop",` +
		`"headers":{"traceparent":"00"},"occurredAt":"2026-03-04T05:06:07+01:00","actor":{"userId":"u"}}`))
	require.NoError(t, err)
	require.Equal(t, "2026-03-04T04:06:07Z", got.OccurredAt.UTC().Format(time.RFC3339))
	got.OccurredAt = time.Time{}
	require.Equal(t, Event{
		Type: "ad_paused", AggregateID: "018f3f6e-0000-7000-8000-00000000000a", AggregateType: "ad",
		Data: json.RawMessage(`{"x":[1, 2]}`), DedupeKey: "k", TenantID: uuid.MustParse(testTenant), Namespace: "shop",
		Headers: map[string]string{"traceparent": "00"}, Actor: &Actor{UserID: "u"},
	}, got)

	got, err = DecodeEvent([]byte(`{"type":"ad_paused","data":null,"dedupeKey":null,"tenantId":null,"actor":null,"headers":null,"occurredAt":null}`))
	require.NoError(t, err)
	require.Equal(t, Event{Type: "ad_paused", Data: json.RawMessage(`null`)}, got, "null means absent, except as data")
}

func TestDecodeEventNamesTheField(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`:                      "event must be an object, not an array",
		`{"type":`:                "type is not valid JSON",
		``:                        "event is not valid JSON",
		`{} x`:                    "event is not valid JSON: there is text after its end",
		`{"Type":"x"}`:            "Type is not a field of an event",
		`{"aggregate_id":"x"}`:    "aggregate_id is not a field of an event",
		`{"surprise":null}`:       "surprise is not a field of an event",
		`{"type":1}`:              "type must be a string",
		`{"type":"a","type":"b"}`: "type appears twice in its object",
		`{"dedupeKey":""}`:        "dedupeKey must not be empty",
		`{"namespace":""}`:        "namespace must not be empty",
		`{"aggregateId":""}`:      "aggregateId must not be empty",
		`{"aggregateId":1.5}`:     "aggregateId must be a string or an integer",
		`{"aggregateId":1e3}`:     "aggregateId must be a string or an integer",
		`{"tenantId":"00000000-0000-0000-0000-000000000000"}`: "tenantId must be a uuid, and not the nil uuid",
		`{"occurredAt":"today"}`:                              "occurredAt must be an RFC 3339 timestamp",
		`{"occurredAt":"2026-01-01T1:00:00,5Z"}`:              "occurredAt must be an RFC 3339 timestamp",
		`{"occurredAt":"0001-01-01T01:00:00+01:00"}`:          "occurredAt must not be the zero time",
		`{"headers":[]}`:                                      "headers is refused: headers are not a JSON object",
		`{"headers":{"a":1}}`:                                 `headers is refused: header "a" is not a string`,
		`{"actor":{}}`:                                        "actor.userId is required",
		`{"actor":{"userId":"u","x":1}}`:                      "actor.x is not a field of the actor",
		`{"data":{"a":"\u0000"}}`:                             `data.a holds \u0000, which PostgreSQL cannot store`,
	} {
		_, err := DecodeEvent([]byte(text))
		require.ErrorIs(t, err, ErrInvalid, text)
		require.EqualError(t, err, "invalid event: "+want, text)
	}
}

func TestDecodeEventTakesIDsOfEveryKind(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{`42`: "42", `-7`: "-7", `"42"`: "42", `"A/17"`: "A/17", `null`: ""} {
		event, err := DecodeEvent([]byte(`{"aggregateId":` + value + `}`))
		require.NoError(t, err, value)
		require.Equal(t, want, event.AggregateID, value)
	}
}

// anyIDs is a catalogue of one type for each kind of aggregate id.
type anyIDs struct{}

func (anyIDs) Resolve(eventType string) (aggregate, topic string, ok bool) {
	return map[string]string{"order.ready": "order"}[eventType], "shop", eventType == "order.ready" || eventType == "tick"
}
func (anyIDs) Validate(string, json.RawMessage) error { return nil }

func TestPrepareTakesTheAggregateIDsOfTheCatalogue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ eventType, id, problem string }{
		"text":         {"order.ready", "A/17 \"é\"", ""},
		"integer":      {"order.ready", "42", ""},
		"longest":      {"order.ready", strings.Repeat("x", 255), ""},
		"too long":     {"order.ready", strings.Repeat("x", 256), "has 256 bytes, at most 255 are allowed"},
		"NUL":          {"order.ready", "a\x00", "holds a NUL character"},
		"none":         {"order.ready", "", "is required"},
		"no aggregate": {"tick", "", ""},
		"one too many": {"tick", "42", "must be left out: tick is about no aggregate"},
	} {
		p, err := New(anyIDs{}).Prepare(Event{Type: tc.eventType, AggregateID: tc.id, Data: struct{}{}})
		if tc.problem != "" {
			require.ErrorContains(t, err, "aggregateId "+tc.problem, name)
			continue
		}
		require.NoError(t, err, name)
		var row struct {
			ID string `json:"aggregate_id"`
		}
		require.NoError(t, json.Unmarshal(p.Row(), &row), name)
		require.Equal(t, tc.id, row.ID, name)
	}
}

// FuzzDecodeEvent holds that no line panics, and that an event that was accepted
// makes a row that is itself JSON.
func FuzzDecodeEvent(f *testing.F) {
	f.Add([]byte(`{"type":"media_uploaded","aggregateId":"018f3f6e-0000-7000-8000-00000000000a","data":{}}`))
	f.Add([]byte(`{"type":"ad_paused","aggregateId":"018f3f6e-0000-7000-8000-00000000000a","data":{},"headers":{"a":"b"},"actor":{"userId":"u"}}`))
	f.Add([]byte(`{"type":"ad_paused","occurredAt":"9999-12-31T23:59:59-23:59","data":[]}`))
	emitter := testEmitter()
	f.Fuzz(func(t *testing.T, text []byte) {
		event, err := DecodeEvent(text)
		if err != nil {
			return
		}
		prepared, err := emitter.Prepare(event)
		if err != nil {
			return
		}
		if !json.Valid(prepared.Row()) {
			t.Fatalf("row is not JSON: %s", prepared.Row())
		}
		var row struct{ Payload json.RawMessage }
		if err := json.Unmarshal(prepared.Row(), &row); err != nil {
			t.Fatal(err)
		}
		envelope, err := wire.ParseEnvelope(row.Payload)
		if err != nil {
			t.Fatalf("emitted what the dispatcher refuses: %v", err)
		}
		if err := (packfinderz.Catalogue{}).Validate(event.Type, envelope.Data); err != nil {
			t.Fatalf("emitted what the dispatcher refuses: %v", err)
		}
	})
}
