package wire_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"2026-01-02T03:04:05Z":                time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"2026-01-02T03:04:05.5Z":              time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC),
		"2026-01-02T03:04:05.123456789999Z":   time.Date(2026, 1, 2, 3, 4, 5, 123_456_789, time.UTC),
		"2026-01-02T03:04:05-00:00":           time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"2026-01-02T03:04:05.25+23:59":        time.Date(2026, 1, 1, 3, 5, 5, 250_000_000, time.UTC),
		"2024-02-29T23:59:59.999999999-01:00": time.Date(2024, 3, 1, 0, 59, 59, 999_999_999, time.UTC),
		"0001-01-01T00:00:00Z":                {},
	} {
		got, err := wire.ParseTime(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.UTC(), text)
	}
	for _, text := range []string{
		"", "Z", "yesterday", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02T03:04Z", "2026-01-02 03:04:05Z", "2026-01-02t03:04:05z",
		"2026-01-02T3:04:05Z", "2026-01-02T3:04:05.5Z", "2026-01-02T3:04:05+01:00", "2026-01-02T03:04:05,5Z", "2026-01-02T3:04:05,5Z",
		"2026-01-02T03:04:05.Z", "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05+23:60", "2026-01-02T03:04:05+1:00", "2026-01-02T03:04:05+0100",
		"2026-02-30T03:04:05Z", "2026-13-02T03:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:60Z", "10000-01-02T03:04:05Z", " 2026-01-02T03:04:05Z",
	} {
		_, err := wire.ParseTime(text)
		require.ErrorIs(t, err, wire.ErrNotTimestamp, text)
	}
}

// FuzzParse holds that nothing panics and that what is accepted has the form of RFC 3339.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"2026-01-02T03:04:05.5Z", "2026-01-02T3:04:05,5+24:60", "2026-01-02T03:04:05-07:00", "Z"} {
		f.Add(text)
	}
	form := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := wire.ParseTime(text); err == nil && !form.MatchString(text) {
			t.Fatalf("accepted %q", text)
		}
	})
}
