package outbox

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// The struct and the table are compared column by column: name, type, nullability. What the event carries is read apart.
func TestEventIsTheTable(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	rows, err := db.Pool.Query(t.Context(), `
		SELECT column_name::text, udt_name::text, is_nullable = 'YES'
		  FROM information_schema.columns
		 WHERE table_schema = 'public' AND table_name = 'outbox_events' AND column_name NOT IN ('payload_json', 'headers')`)
	require.NoError(t, err)
	type column struct {
		Name, Type string
		Nullable   bool
	}
	table, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	require.NoError(t, err)

	goType := map[reflect.Type][]string{
		reflect.TypeFor[string]():    {"text", "uuid", "event_type_enum", "aggregate_type_enum"},
		reflect.TypeFor[time.Time](): {"timestamptz"},
		reflect.TypeFor[int]():       {"int4"},
		reflect.TypeFor[int64]():     {"int8"},
	}
	byName := map[string]column{ // the view adds what is derived, and the lease
		"status":    {"status", "text", false},
		"locked_by": {"locked_by", "uuid", true}, "locked_until": {"locked_until", "timestamptz", true},
		"trace_id": {"trace_id", "text", true},
	}
	for _, c := range table {
		byName[c.Name] = c
	}
	fields := reflect.TypeFor[Event]()
	require.Equal(t, len(byName), fields.NumField(), "as many fields as columns: %v", table)
	for f := range fields.Fields() {
		c, ok := byName[f.Tag.Get("db")]
		require.True(t, ok, "column of field %s", f.Name)
		plain := f.Type
		if plain.Kind() == reflect.Pointer {
			plain = plain.Elem()
		}
		require.Contains(t, goType[plain], c.Type, c.Name)
		require.Equal(t, f.Type.Kind() == reflect.Pointer, c.Nullable, c.Name)
	}
}

func TestEventCanBeRead(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	want := emitCommitted(t, db, goodEvent())
	store := (&Outbox{DB: db.Pool})
	got, err := store.Event(t.Context(), want.ID.String())
	require.NoError(t, err)
	require.Equal(t, want.ID.String(), got.ID)
	require.Equal(t, StatusPending, got.Status)
	require.Equal(t, "shop", got.Namespace)
	require.Equal(t, testTenant+"/release-1", *got.DedupeKey)
	require.Equal(t, testTenant, *got.TenantID)
	require.Equal(t, 3, *got.MaxAttempts)
	require.Nil(t, got.PublishedAt)
	require.Zero(t, got.AttemptCount)

	content, err := store.EventContent(t.Context(), got.ID)
	require.NoError(t, err)
	require.JSONEq(t, `{"traceparent":"00-ab"}`, string(content.Headers))
	envelope, err := wire.ParseEnvelope(content.Payload)
	require.NoError(t, err)
	require.Equal(t, wire.Envelope{
		Version: 1, EventID: got.ID, OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Actor: &wire.Actor{UserID: "u-1", Role: "admin"},
		Data:  json.RawMessage(`{"orderId": "018f3f6e-0000-7000-8000-00000000000a"}`),
	}, envelope)
}
