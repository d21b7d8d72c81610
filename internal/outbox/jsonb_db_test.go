package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// PostgreSQL is asked what the walker claims to know.
func TestJSONBAgreesWithPostgreSQL(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	for in, want := range pairs(t, "printed.tsv") {
		var out string
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT $1::text::jsonb::text`, in).Scan(&out), in)
		require.Equal(t, want, out, in)
	}
	for in := range pairs(t, "refused.tsv") {
		var out string
		require.Error(t, db.Pool.QueryRow(t.Context(), `SELECT $1::text::jsonb::text`, in).Scan(&out), in)
	}
	for _, edge := range []string{`1e131071`, `-1e131071`, `1e-16383`, `0.1e-16382`, `0.5e131072`} {
		requireSameSize(t, db, edge)
	}
	for _, beyond := range []string{`1e131072`, `1e-16384`, `0.1e-16383`, `10e131071`} {
		var out string
		require.Error(t, db.Pool.QueryRow(t.Context(), `SELECT $1::text::jsonb::text`, beyond).Scan(&out), beyond)
		_, err := wire.StoredBytes([]byte(beyond))
		require.Error(t, err, beyond)
	}
	requireSameSize(t, db, strings.Repeat("[", 499)+strings.Repeat("]", 499))
}

// pairs reads a table that the tests of the walker read too.
func pairs(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../emit/internal/jsonb/testdata/" + name)
	require.NoError(t, err)
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		in, out, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		in, err := strconv.Unquote(in)
		require.NoError(t, err, line)
		all[in], err = strconv.Unquote(out)
		require.NoError(t, err, line)
	}
	require.NotEmpty(t, all)
	return all
}

func requireSameSize(t require.TestingT, db *outboxtest.Database, text string) {
	want := 0
	require.NoError(t, db.Pool.QueryRow(context.Background(), `SELECT octet_length($1::text::jsonb::text)`, text).Scan(&want), text)
	got, err := wire.StoredBytes([]byte(text))
	require.NoError(t, err, text)
	require.Equal(t, want, got, text)
}

func TestJSONBSizeOfAnyDocument(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	number := rapid.Custom(func(t *rapid.T) string {
		n := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		return n
	})
	text := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(
			rapid.StringMatching(`[ -!#-\[\]-~éß😀]{0,8}`),
			rapid.SampledFrom([]string{`\n`, `\"`, `\\`, `\/`, `\t`, `\b`, `\f`, `\r`, `\u00e9`, `\u0001`, `\u0041`, `\ud83d\ude00`, `\u007f`}),
		), 0, 5).Draw(t, "parts")
		return `"` + strings.Join(parts, "") + `"`
	})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		flat := []*rapid.Generator[string]{number, text, rapid.SampledFrom([]string{"true", "false", "null", "{}", "[ ]"})}
		if depth == 0 {
			return rapid.OneOf(flat...)
		}
		return rapid.OneOf(append(flat,
			rapid.Custom(func(t *rapid.T) string {
				return "[" + strings.Join(rapid.SliceOfN(value(depth-1), 1, 4).Draw(t, "array"), " , ") + "]"
			}),
			rapid.Custom(func(t *rapid.T) string {
				members := make([]string, rapid.IntRange(1, 4).Draw(t, "members"))
				for i := range members {
					members[i] = fmt.Sprintf(`"k%d":%s`, i, value(depth-1).Draw(t, "member"))
				}
				return "{ " + strings.Join(members, ",\n") + "}"
			}))...)
	}
	rapid.Check(t, func(t *rapid.T) { requireSameSize(t, db, value(3).Draw(t, "document")) })
}

// The largest event the emitter takes is taken by the database, comes back within
// the broker's limits, and one byte more never reaches the database.
func TestTheLargestEventIsStoredWhole(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	event := goodEvent()
	event.Type, event.AggregateType = packfinderz.TypeAdPaused, ""
	data := func(filler int) json.RawMessage {
		return json.RawMessage(`{"adId":"` + testTenant + `","storeId":"` + testTenant +
			`","at":"2026-03-04T05:06:07Z","changes":["` + strings.Repeat("x", filler) + `"]}`)
	}
	limits := wire.PubSubLimits()
	event.Data = data(limits.MessageBytes)
	var tooLarge *wire.TooLargeError
	_, err := dbEmitter().Prepare(event)
	require.ErrorAs(t, err, &tooLarge)
	event.Data = data(limits.MessageBytes - (tooLarge.Size - limits.MessageBytes))
	result := emitCommitted(t, db, event)

	store := (&Outbox{DB: db.Pool})
	row, err := store.Event(t.Context(), result.ID.String())
	require.NoError(t, err)
	content, err := store.EventContent(t.Context(), row.ID)
	require.NoError(t, err)
	headers, err := wire.ParseHeaders(content.Headers)
	require.NoError(t, err)
	attrs := wire.Attributes(wire.Row{ID: row.ID, EventType: row.EventType, AggregateType: row.AggregateType, AggregateID: row.AggregateID,
		Namespace: row.Namespace, TenantID: *row.TenantID, DedupeKey: *row.DedupeKey, CreatedAt: row.CreatedAt, Headers: headers})
	require.NoError(t, limits.Check(content.Payload, attrs))
	// created_at may be printed shorter than the longest form that was assumed.
	spare := limits.MessageBytes - wire.MessageBytes(len(content.Payload), attrs)
	require.GreaterOrEqual(t, spare, 0)
	require.Less(t, spare, len(".999999"))
}
