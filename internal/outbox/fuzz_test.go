package outbox

import (
	"encoding/json"
	"maps"
	"regexp"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzFingerprint holds that a fingerprint is short, that of a normalised error
// is the error's own, and that ids and numbers do not change it.
func FuzzFingerprint(f *testing.F) {
	for _, text := range []string{
		"", "topic missing", `cannot store "a b" after 250 ms`, "at 2026-01-02T03:04:05.678Z from 10.0.0.7:8085", "[::1]:443", `'unclosed`,
		"0xdeadbeef", "<n> <id>", "\xff", "a\u00a0 b", "018f3a5c-7e1b-7c3d-9a4e-5f6071829304",
	} {
		f.Add(text)
	}
	short := regexp.MustCompile(`^[0-9a-f]{12}$`)
	f.Fuzz(func(t *testing.T, text string) {
		normal := NormalizeError(text)
		require.Equal(t, normal, NormalizeError(normal), "what is normal stays so")
		require.NotRegexp(t, `[0-9]`, normal)
		kind := Fingerprint(ReasonMaxAttempts, text)
		require.Regexp(t, short, kind)
		require.Equal(t, kind, Fingerprint(ReasonMaxAttempts, normal))
		require.NotEqual(t, kind, Fingerprint(ReasonInvalidPayload, text))
		again := text + " 7 " + "018f3a5c-7e1b-7c3d-9a4e-5f6071829304"
		other := text + " 81 " + "ffffffff-ffff-ffff-ffff-ffffffffffff"
		require.Equal(t, Fingerprint(ReasonMaxAttempts, again), Fingerprint(ReasonMaxAttempts, other))
	})
}

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
			require.False(t, isOwnAttribute(name), name)
		}
		var want map[string]string
		require.NoError(t, json.Unmarshal(text, &want), "%s", text)
		if utf8.Valid(text) {
			require.True(t, maps.Equal(want, headers), "%s is %q, not %q", text, headers, want)
		}
		attrs := Attributes("id", "type", "aggregate", "aggregateId", time.Unix(0, 0), headers)
		require.Len(t, attrs, len(headers)+ownAttributes)
		require.Equal(t, "id", attrs[AttrEventID])
	})
}
