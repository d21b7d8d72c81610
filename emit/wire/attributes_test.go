package wire

import (
	"encoding/json"
	"maps"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzParseHeaders holds that headers are read as encoding/json reads them, and
// never take the place of an attribute of ours.
func FuzzParseHeaders(f *testing.F) {
	for _, text := range []string{
		``, `null`, `{}`, `{"traceparent": "00-1"}`, `{"event_id": "x"}`, `{"a": 1}`, `{"a": "b", "a": "c"}`, `{"\u0061": "\ud83d\ude00"}`, `{"a": "\ud800"}`, `[]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		headers, err := ParseHeaders(text)
		if err != nil || len(text) == 0 {
			return
		}
		for name := range headers {
			require.False(t, IsStandardAttribute(name), name)
		}
		var want map[string]string
		require.NoError(t, json.Unmarshal(text, &want), "%s", text)
		if utf8.Valid(text) {
			require.True(t, maps.Equal(want, headers), "%s is %q, not %q", text, headers, want)
		}
		attrs := Attributes("id", "type", "aggregate", "aggregateId", time.Unix(0, 0), headers)
		require.Len(t, attrs, len(headers)+StandardAttributes)
		require.Equal(t, "id", attrs[AttrEventID])
	})
}
