package emit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	. "github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
)

const testTenant = "018f3f6e-0000-7000-8000-0000000000aa"

func testEmitter() *Emitter {
	e := New(packfinderz.Catalogue{})
	e.Now = func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }
	e.WithIDs(func() (uuid.UUID, error) { return uuid.MustParse("018f3f6e-0000-7000-8000-00000000000e"), nil })
	return e
}

// goodEvent is complete; tests spoil one thing at a time.
func goodEvent() Event {
	return Event{
		Type:          packfinderz.TypeReservationReleased,
		AggregateType: packfinderz.AggregateVendorOrder,
		AggregateID:   "018f3f6e-0000-7000-8000-00000000000a",
		Data:          json.RawMessage(`{"orderId":"018f3f6e-0000-7000-8000-00000000000a"}`),
		Actor:         &Actor{UserID: "u-1", Role: "admin"},
		DedupeKey:     testTenant + "/release-1",
		TenantID:      uuid.MustParse(testTenant),
		Namespace:     "shop",
		Headers:       map[string]string{"traceparent": "00-ab"},
		MaxAttempts:   3,
	}
}

func TestPrepareBuildsTheRow(t *testing.T) {
	t.Parallel()
	got, err := testEmitter().Prepare(goodEvent())
	require.NoError(t, err)
	require.Equal(t, "018f3f6e-0000-7000-8000-00000000000e", got.ID.String())
	require.Equal(t, packfinderz.TopicDomain, got.Topic)
	require.Equal(t, `{"id":"018f3f6e-0000-7000-8000-00000000000e","event_type":"reservation_released","aggregate_type":"vendor_order",`+
		`"aggregate_id":"018f3f6e-0000-7000-8000-00000000000a","tenant_id":"018f3f6e-0000-7000-8000-0000000000aa","namespace":"shop",`+
		`"dedupe_key":"018f3f6e-0000-7000-8000-0000000000aa/release-1","headers":{"traceparent":"00-ab"},"max_attempts":3,`+
		`"payload":{"version":1,"eventId":"018f3f6e-0000-7000-8000-00000000000e",`+
		`"occurredAt":"2026-03-04T05:06:07Z","actor":{"userId":"u-1","role":"admin"},"data":{"orderId":"018f3f6e-0000-7000-8000-00000000000a"}}}`, string(got.Row()))

	least, err := testEmitter().Prepare(Event{
		Type: packfinderz.TypeMediaUploaded, AggregateID: testTenant, Data: struct{}{},
		OccurredAt: time.Date(2026, 1, 1, 1, 0, 0, 5, time.FixedZone("", 3600)),
	})
	require.NoError(t, err)
	require.Equal(t, `{"id":"018f3f6e-0000-7000-8000-00000000000e","event_type":"media_uploaded","aggregate_type":"media",`+
		`"aggregate_id":"018f3f6e-0000-7000-8000-0000000000aa","namespace":"default",`+
		`"payload":{"version":1,"eventId":"018f3f6e-0000-7000-8000-00000000000e","occurredAt":"2026-01-01T00:00:00.000000005Z","data":{}}}`,
		string(least.Row()))
}

// anything is a catalogue that knows every type.
type anything struct{}

func (anything) Resolve(string) (aggregateType, topic string, ok bool) { return `b"c`, "t", true }
func (anything) Validate(string, json.RawMessage) error                { return nil }

// Another catalogue may have names that the built-in one would not have.
func TestPrepareWithAnotherCatalogue(t *testing.T) {
	t.Parallel()
	event := goodEvent()
	event.Type, event.AggregateType = `a","id":"x`, ""
	got, err := New(anything{}).Prepare(event)
	require.NoError(t, err)
	var row map[string]any
	require.NoError(t, json.Unmarshal(got.Row(), &row))
	require.Equal(t, []any{event.Type, `b"c`, got.ID.String()}, []any{row["event_type"], row["aggregate_type"], row["id"]})
}

func TestPrepareHoldsTheLimitsOfTheBroker(t *testing.T) {
	t.Parallel()
	e := testEmitter()
	e.Limits = wire.Limits{MessageBytes: 1_000, Attributes: 10, AttributeNameBytes: 20, AttributeValueBytes: 40, ReservedPrefix: "nats-"}
	event := goodEvent()
	event.Headers = map[string]string{"googclient": "x", "b": "y"}
	require.NoError(t, e.Validate(event), "what only Pub/Sub refuses")
	event.Headers["Nats-x"] = "z"
	require.ErrorContains(t, e.Validate(event), "headers has 3 entries, at most 2 are allowed")
	delete(event.Headers, "b")
	require.ErrorContains(t, e.Validate(event), "headers.Nats-x starts with nats-, which the broker keeps for itself")
	event.Headers, event.Actor.Role = nil, strings.Repeat("r", 600)
	require.ErrorContains(t, e.Validate(event), "at most 1000 are allowed")
}

func TestPrepareMakesVersion7Ids(t *testing.T) {
	t.Parallel()
	event := goodEvent()
	p, err := New(packfinderz.Catalogue{}).Prepare(event)
	require.NoError(t, err)
	require.Equal(t, uuid.Version(7), p.ID.Version())

	event.ID = uuid.MustParse(testTenant)
	p, err = New(packfinderz.Catalogue{}).Prepare(event)
	require.NoError(t, err)
	require.Equal(t, event.ID, p.ID, "a caller's own id is kept")
}

// asked is a catalogue that tells when a schema is asked.
type asked struct {
	packfinderz.Catalogue
	times *int
}

func (a asked) Validate(string, json.RawMessage) error {
	*a.times++
	return nil
}

// A schema calculates with numbers: those that are refused anyway must not reach it.
func TestInflatedNumbersReachNoSchema(t *testing.T) {
	t.Parallel()
	times := 0
	e := New(asked{times: &times})
	event := goodEvent()
	event.Data = []byte(`[1e131071` + strings.Repeat(`,1e131071`, 20_000) + `]`)
	require.ErrorContains(t, e.Validate(event), "when its numbers are written out; send them as strings")
	require.Zero(t, times)
	event.Data = []byte(`[1e300]`)
	require.NoError(t, e.Validate(event))
	require.Equal(t, 1, times)
}

func TestPrepareNamesTheFieldAndTheProblem(t *testing.T) {
	t.Parallel()
	manyHeaders := func(n int) map[string]string {
		h := map[string]string{}
		for i := range n {
			h[fmt.Sprintf("h%d", i)] = ""
		}
		return h
	}
	for _, c := range []struct {
		name  string
		spoil func(*Event)
		field string
		want  string
	}{
		{"no type", func(p *Event) { p.Type = "" }, "type", "is required"},
		{"unknown type", func(p *Event) { p.Type = "order_shipped" }, "type", `"order_shipped" is not a known event type`},
		{"wrong aggregate", func(p *Event) { p.AggregateType = "store" }, "aggregateType", `must be vendor_order for reservation_released, not "store"`},
		{"nil aggregate id", func(p *Event) { p.AggregateID = uuid.Nil.String() }, "aggregateId", "must not be the nil uuid"},
		{"no aggregate id", func(p *Event) { p.AggregateID = "" }, "aggregateId", "is required"},
		{"aggregate id of another kind", func(p *Event) { p.AggregateID = "42" }, "aggregateId", "must be a uuid"},
		{"no data", func(p *Event) { p.Data = nil }, "data", "is required"},
		{"empty data", func(p *Event) { p.Data = []byte{} }, "data", "is required"},
		{"null data", func(p *Event) { p.Data = []byte(" null ") }, "data", "must not be null"},
		{"nil struct", func(p *Event) { p.Data = (*packfinderz.MediaUploaded)(nil) }, "data", "must not be null"},
		{"data that cannot be marshalled", func(p *Event) { p.Data = math.NaN() }, "data", "cannot be marshalled"},
		{"data of another type", func(p *Event) { p.Data = packfinderz.MediaUploaded{} }, "data.orderId", "is required"},
		{"data jsonb refuses", func(p *Event) { p.Data = []byte(`{"orderId":"\u0000"}`) }, "data.orderId", "holds"},
		{"data that breaks out", func(p *Event) { p.Data = []byte(`{},"version":2`) }, "data", "text after its end"},
		{"year 10000", func(p *Event) { p.OccurredAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "occurredAt", "is outside the years"},
		{"year 0", func(p *Event) { p.OccurredAt = time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)) }, "occurredAt", "is outside the years"},
		{"actor without user", func(p *Event) { p.Actor = &Actor{Role: "x"} }, "actor.userId", "is required"},
		{"actor with NUL", func(p *Event) { p.Actor.Role = "a\x00b" }, "actor.role", "NUL"},
		{"long namespace", func(p *Event) { p.Namespace = strings.Repeat("n", 256) }, "namespace", "has 256 bytes, at most 255 are allowed"},
		{"broken namespace", func(p *Event) { p.Namespace = "\xff" }, "namespace", "is not valid UTF-8"},
		{"long dedupe key", func(p *Event) { p.DedupeKey = testTenant + "/" + strings.Repeat("k", 1024-36) }, "dedupeKey", "has 1025 bytes, at most 1024 are allowed"},
		{"dedupe key of another tenant", func(p *Event) { p.DedupeKey = "release-1" }, "dedupeKey", "must start with the tenant: " + testTenant + "/"},
		{"dedupe key in upper case", func(p *Event) { p.DedupeKey = strings.ToUpper(p.DedupeKey) }, "dedupeKey", "must start with the tenant"},
		{"an ordering key beside the aggregate", func(p *Event) { p.OrderingKey, p.ByAggregate = "a", true }, "orderingKey", "must be empty beside"},
		{"a long ordering key", func(p *Event) { p.OrderingKey = strings.Repeat("k", 1024) }, "orderingKey", "at most 10"},
		{"negative attempts", func(p *Event) { p.MaxAttempts = -1 }, "maxAttempts", "must be a positive"},
		{"own attribute", func(p *Event) { p.Headers["event_id"] = "x" }, "headers.event_id", "is an attribute the publisher sets"},
		{"own attribute in capitals", func(p *Event) { p.Headers["Tenant_ID"] = "x" }, "headers.Tenant_ID", "is an attribute the publisher sets"},
		{"goog header", func(p *Event) { p.Headers["googclient"] = "x" }, "headers.googclient", "keeps for itself"},
		{"long header value", func(p *Event) { p.Headers["h"] = strings.Repeat("v", 1025) }, "headers.h", "at most 1024"},
		{"header with NUL", func(p *Event) { p.Headers["h"] = "\x00" }, "headers.h", "NUL"},
		{"93 headers", func(p *Event) { p.Headers = manyHeaders(93) }, "headers", "has 93 entries, at most 92 are allowed"},
		{"92 headers and a key", func(p *Event) { p.Headers, p.OrderingKey = manyHeaders(92), "k" }, "headers", "has 92 entries, at most 91 are allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			event := goodEvent()
			c.spoil(&event)
			_, err := testEmitter().Prepare(event)
			require.ErrorIs(t, err, ErrInvalid)
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			for _, p := range invalid.Problems {
				if p.Field == c.field {
					require.Contains(t, p.Problem, c.want)
					return
				}
			}
			t.Fatalf("no problem of %s in: %v", c.field, err)
		})
	}

	limits := goodEvent()
	limits.Headers = manyHeaders(92)
	limits.Namespace = strings.Repeat("n", 255)
	limits.DedupeKey = testTenant + "/" + strings.Repeat("k", 1024-37)
	_, err := testEmitter().Prepare(limits)
	require.NoError(t, err, "the bounds themselves are allowed")
}

func TestPrepareReportsAllProblemsTogether(t *testing.T) {
	t.Parallel()
	_, err := testEmitter().Prepare(Event{Type: packfinderz.TypeAdPaused, Data: []byte(`{"adId":1}`), DedupeKey: "\xff"})
	require.EqualError(t, err, "invalid event: aggregateId is required and must not be the nil uuid; dedupeKey is not valid UTF-8; "+
		"data.adId must be a string, not a number; data.storeId is required; data.at is required")
}

// The verdict falls on the bytes PostgreSQL will print, not on those given: the
// same data with spaces is as large, and numbers written short are larger.
func TestPrepareMeasuresTheMessage(t *testing.T) {
	t.Parallel()
	event := goodEvent()
	event.Type, event.AggregateType = packfinderz.TypeAdPaused, ""
	data := func(filler int) json.RawMessage {
		return json.RawMessage(`{"adId":"` + testTenant + `","storeId":"` + testTenant +
			`","at":"2026-03-04T05:06:07Z","changes":["` + strings.Repeat("x", filler) + `"]}`)
	}
	most := sizeOfLargest(t, event, data)
	event.Data = data(most)
	_, err := testEmitter().Prepare(event)
	require.NoError(t, err)

	event.Data = data(most + 1)
	_, err = testEmitter().Prepare(event)
	var tooLarge *wire.TooLargeError
	require.ErrorAs(t, err, &tooLarge)
	require.Equal(t, largest+1, tooLarge.Size)
	require.ErrorContains(t, err, "data is too large")

	event.Data = json.RawMessage(strings.Replace(string(data(most)), `["x`, "  [ \n \"\\u0078", 1))
	_, err = testEmitter().Prepare(event)
	require.NoError(t, err, "spaces and escapes are not stored")

	event.Data = json.RawMessage(strings.Replace(string(data(0)), `[""]`, `[1e131071]`, 1))
	_, err = testEmitter().Prepare(event)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "when its numbers are written out", "which the table would refuse, and end the transaction")
}

// The envelope around data is a level too. An emitter that forgot it would write
// what the publisher kills.
func TestPrepareCountsLevelsLikeThePublisher(t *testing.T) {
	t.Parallel()
	for levels, fits := range map[int]bool{jsonb.MaxDepth - 2: true, jsonb.MaxDepth - 1: true, jsonb.MaxDepth: false, jsonb.MaxDepth + 1: false} {
		t.Run(fmt.Sprint(levels), func(t *testing.T) {
			t.Parallel()
			data := `{"adId":"` + testTenant + `","storeId":"` + testTenant + `","at":"2026-03-04T05:06:07Z","changes":` +
				strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
			event := goodEvent()
			event.Type, event.AggregateType, event.Data = packfinderz.TypeAdPaused, "", json.RawMessage(data)
			_, byFlags := testEmitter().Prepare(event)
			_, byLine := DecodeEvent([]byte(`{"type":"ad_paused","data":` + data + `}`))
			_, byPublisher := wire.ParseEnvelope([]byte(`{"version":1,"eventId":"e","occurredAt":"2026-03-04T05:06:07Z","data":` + data + `}`))
			for who, err := range map[string]error{"Prepare": byFlags, "DecodeEvent": byLine, "ParseEnvelope": byPublisher} {
				if fits {
					require.NoError(t, err, who)
					continue
				}
				require.ErrorContains(t, err, "nested more than 500 levels deep", who)
				require.Less(t, len(err.Error()), 1024, "%s: the reason would be cut off where it is stored", who)
			}
		})
	}
}

// largest is the size of the largest message.
var largest = wire.PubSubLimits().MessageBytes

// sizeOfLargest finds how much filler makes the message exactly the maximum.
func sizeOfLargest(t *testing.T, event Event, data func(int) json.RawMessage) int {
	t.Helper()
	event.Data = data(largest)
	_, err := testEmitter().Prepare(event)
	var tooLarge *wire.TooLargeError
	require.ErrorAs(t, err, &tooLarge)
	return largest - (tooLarge.Size - largest)
}

func BenchmarkPrepare(b *testing.B) {
	e, event := New(packfinderz.Catalogue{}), goodEvent()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Prepare(event); err != nil {
			b.Fatal(err)
		}
	}
}

// What the hook says of a call is in each of its events, behind what the event says itself.
func TestHeadersOfTheContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	emitter := testEmitter()
	emitter.Headers = func(ctx context.Context) map[string]string {
		return map[string]string{"traceparent": ctx.Value(key{}).(string), "own": "no"}
	}
	event := Event{Type: packfinderz.TypeMediaUploaded, AggregateID: uuid.NewString(), Data: map[string]any{}, Headers: map[string]string{"own": "yes"}}
	tx := &recordedTx{}
	_, _ = emitter.EmitAll(context.WithValue(t.Context(), key{}, "00-1"), tx, []Event{event, {Type: event.Type, AggregateID: event.AggregateID, Data: event.Data}})
	require.Contains(t, tx.text, `"headers":{"own":"yes","traceparent":"00-1"}`)
	require.Contains(t, tx.text, `"headers":{"own":"no","traceparent":"00-1"}`)
	require.Equal(t, map[string]string{"own": "yes"}, event.Headers, "the caller's map is left alone")
}

// recordedTx keeps what it is asked to write, and refuses it.
type recordedTx struct {
	pgx.Tx
	text string
}

func (tx *recordedTx) Query(_ context.Context, _ string, args ...any) (pgx.Rows, error) {
	tx.text, _ = args[len(args)-1].(string)
	return nil, errors.New("not here")
}
