package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// FuzzParseDuration holds that a duration means what Go takes it for where Go knows its units, and that what a person
// is shown of one can be typed again.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"30d", "2w", "12h", "1h30m", "500ms", "1.5s", "0", "-1h", "1y", "1d12h", "9223372036s", "300y", "1e3s", "µs"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := words.ParseDuration(text)
		plain, plainErr := time.ParseDuration(text)
		if plainErr == nil {
			require.NoError(t, err, text)
			require.Equal(t, plain, d, text)
		}
		if err != nil {
			return
		}
		again, err := words.ParseDuration(d.String())
		require.NoError(t, err, d.String())
		require.Equal(t, d, again)
		var flag DurationFlag
		if err := flag.Set(text); d < 0 {
			require.Error(t, err)
		} else {
			require.NoError(t, err)
			require.Equal(t, d.String(), flag.String())
		}
	})
}

// FuzzParseInstant holds that a time which was understood is the same when it is written out and read again, and that
// "how long ago" is never in the future.
func FuzzParseInstant(f *testing.F) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)
	for _, text := range []string{"2026-03-01T12:00:00Z", "2026-03-01T12:00:00.5+02:00", "2026-03-01", "2026-03-01 12:00", "2h", "30d", "-1h", "292y", "0000-01-01", "2026-02-30"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := words.ParseInstant(text, now)
		if err != nil {
			return
		}
		if ago, err := words.ParseDuration(text); err == nil && ago >= 0 {
			require.False(t, at.After(now), "%s is %v ago, not at %v", text, ago, at)
			return
		}
		again, err := words.ParseInstant(at.UTC().Format(time.RFC3339Nano), now)
		require.NoError(t, err, text)
		require.True(t, again.Equal(at), text)
	})
}

// FuzzParseAggregate holds that what --aggregate was taken for is what was typed.
func FuzzParseAggregate(f *testing.F) {
	for _, text := range []string{"", "license", "018f3f6e-0000-7000-8000-00000000000a", "license/018f3f6e-0000-7000-8000-00000000000a", "/", "/a", "42", "a/b/c", "{018f3f6e-0000-7000-8000-00000000000a}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kind, ids, err := outbox.ParseAggregate(text)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(ids), 1)
		whole := kind
		for _, id := range ids {
			whole += "/" + id
		}
		againKind, againIDs, err := outbox.ParseAggregate(whole)
		require.NoError(t, err, "%q was taken for %q", text, whole)
		require.Equal(t, kind, againKind)
		require.Equal(t, ids, againIDs)
	})
}
