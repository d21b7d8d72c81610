package wire

import (
	"errors"
	"time"
)

// ErrNotTimestamp reports a text that is not an RFC 3339 timestamp. It reads after a
// field's name.
var ErrNotTimestamp = errors.New("must be an RFC 3339 timestamp")

// ParseTime reads a timestamp that is RFC 3339, its letters in upper case. The standard
// library also takes an hour of one digit, a comma before the fraction and offsets of
// 24 hours or 60 minutes (https://go.dev/issue/54580).
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, ErrNotTimestamp
	}
	// What time.Parse took is long enough to look at these places.
	const hour, fraction = len("2006-01-02T"), len("2006-01-02T15:04:05")
	if text[hour+1] == ':' || text[fraction] == ',' {
		return time.Time{}, ErrNotTimestamp
	}
	if n := len(text); text[n-1] != 'Z' && (text[n-5:n-3] > "23" || text[n-2:] > "59") {
		return time.Time{}, ErrNotTimestamp
	}
	return t, nil
}
