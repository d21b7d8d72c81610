package words

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// ParseDuration reads what people write: 30d, 2w, 12h, 1h30m, 500ms, 1.5s.
func ParseDuration(raw string) (time.Duration, error) {
	if d, err := model.ParseDuration(raw); err == nil {
		return time.Duration(d), nil
	}
	d, err := time.ParseDuration(raw)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 30s, 12h, 30d or 2w", raw)
	}
	return d, nil
}

// ParseInstant reads a point in time as people write it: RFC 3339, a date or a date and time in
// UTC, or how long ago (2h, 30d), counted from now.
func ParseInstant(raw string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04",
		"2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, raw); err == nil {
			return t, nil
		}
	}
	if d, err := ParseDuration(raw); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a time (2026-03-01T12:00:00Z), a date (2026-03-01) nor how long ago (2h, 30d)", raw)
}
