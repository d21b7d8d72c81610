package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const wholeEnvelope = `{"version":1,"eventId":"018f3f6e-0000-7000-8000-00000000000a","occurredAt":"2026-03-04T05:06:07.8Z",` +
	`"actor":{"userId":"u","storeId":"s","role":"admin"},"data":{"a":1}}`

func TestEnvelopeShapeIsLocked(t *testing.T) {
	t.Parallel()
	want := Envelope{
		Version: 1, EventID: "018f3f6e-0000-7000-8000-00000000000a",
		OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 800_000_000, time.UTC),
		Actor:      &Actor{UserID: "u", StoreID: "s", Role: "admin"}, Data: json.RawMessage(`{"a":1}`),
	}
	got, err := ParseEnvelope([]byte(wholeEnvelope))
	require.NoError(t, err)
	require.Equal(t, want, got)
	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.Equal(t, wholeEnvelope, string(text))

	want.Actor = nil
	text, err = json.Marshal(want)
	require.NoError(t, err)
	require.NotContains(t, string(text), "actor")
}

func TestParseEnvelopeIsStrict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, want string }{
		{`"version":1,`, ``, "version is required"},
		{`"version":1`, `"version":2`, "version must be 1"},
		{`"version":1`, `"version":"1"`, "version must be 1"},
		{`"version":1`, `"version":null`, "version must be 1"},
		{`"version":1`, `"Version":1`, "Version is not a field of the envelope"},
		{`"eventId":"018f3f6e-0000-7000-8000-00000000000a",`, ``, "eventId is required"},
		{`"eventId":"018f3f6e-0000-7000-8000-00000000000a"`, `"eventId":7`, "eventId must be the event's id"},
		{`"occurredAt":"2026-03-04T05:06:07.8Z",`, ``, "occurredAt is required"},
		{`"2026-03-04T05:06:07.8Z"`, `null`, "occurredAt must be an RFC 3339 timestamp"},
		{`"2026-03-04T05:06:07.8Z"`, `"yesterday"`, "occurredAt must be an RFC 3339 timestamp"},
		{`"2026-03-04T05:06:07.8Z"`, `"2026-01-01T1:00:00,5Z"`, "occurredAt must be an RFC 3339 timestamp"},
		{`,"data":{"a":1}`, ``, "data is required"},
		{`"data":`, `"extra":1,"data":`, "extra is not a field of the envelope"},
		{`"userId":"u",`, ``, "actor.userId is required"},
		{`"role":"admin"`, `"role":1`, "actor.role must be a string"},
		{`"role":"admin"`, `"team":"x"`, "actor.team is not a field of the actor"},
		{`{"userId":"u","storeId":"s","role":"admin"}`, `"u"`, "actor must be an object, not a string"},
		{wholeEnvelope, `[]`, "payload_json must be an object, not an array"},
		{wholeEnvelope, `{`, "payload_json is not valid JSON"},
	} {
		require.Contains(t, wholeEnvelope, c.old)
		_, err := ParseEnvelope([]byte(strings.Replace(wholeEnvelope, c.old, c.new, 1)))
		var bad *EnvelopeError
		require.ErrorAs(t, err, &bad, c.new)
		require.EqualError(t, err, "invalid envelope: "+c.want)
	}
}

// Many encoders write an absent value as null.
func TestParseEnvelopeTakesNullForNoActor(t *testing.T) {
	t.Parallel()
	for actor, want := range map[string]*Actor{
		`null`: nil,
		`{"userId":"u","storeId":null,"role":null}`: {UserID: "u"},
	} {
		got, err := ParseEnvelope([]byte(strings.Replace(wholeEnvelope, `{"userId":"u","storeId":"s","role":"admin"}`, actor, 1)))
		require.NoError(t, err, actor)
		require.Equal(t, want, got.Actor, actor)
	}
}

func TestHeadersOfARowBecomeAttributes(t *testing.T) {
	t.Parallel()
	for _, none := range []string{"", "null", "{}"} {
		headers, err := ParseHeaders(json.RawMessage(none))
		require.NoError(t, err)
		require.Empty(t, headers)
	}
	headers, err := ParseHeaders(json.RawMessage(`{"traceparent": "00-ab"}`))
	require.NoError(t, err)
	at := time.Date(2026, 3, 4, 7, 6, 7, 123456000, time.FixedZone("", 2*3600))
	require.Equal(t, map[string]string{
		"event_id": "e", "event_type": "t", "aggregate_type": "a", "aggregate_id": "i",
		"created_at": "2026-03-04T05:06:07.123456Z", "traceparent": "00-ab",
	}, Attributes(Row{ID: "e", EventType: "t", AggregateType: "a", AggregateID: "i", CreatedAt: at, Headers: headers}))

	for raw, want := range map[string]string{
		`[]`: "not a JSON object", `{"a": 1}`: `header "a" is not a string`, `{"a": null}`: `header "a" is not a string`,
		`{"event_id": "x"}`: `"event_id" is an attribute the publisher sets`,
	} {
		_, err := ParseHeaders(json.RawMessage(raw))
		require.ErrorContains(t, err, want)
	}
}

// FuzzParseEnvelope holds that no stored payload panics the reader, and that what
// it accepts survives being written and read again.
func FuzzParseEnvelope(f *testing.F) {
	f.Add([]byte(wholeEnvelope))
	f.Add([]byte(`{"version": 1, "data": {}, "eventId": "x", "occurredAt": "2026-03-04T05:06:07+02:00"}`))
	f.Add([]byte(`{"version":1,"version":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := ParseEnvelope(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("marshal an accepted envelope: %v", err)
		}
		if _, err := ParseEnvelope(again); err != nil {
			t.Fatalf("accepted %s, refused %s: %v", text, again, err)
		}
	})
}
