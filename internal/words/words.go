package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/common/model"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// Count writes a number with its digits grouped.
func Count(n int64) string { return humanize.Comma(n) }

// Counted writes a number of things.
func Counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "x") {
		noun += "e" // indexes
	}
	return humanize.Comma(n) + " " + noun + "s"
}

// NoneOf begins a sentence about a number of things of which nothing was done: none of 3 events,
// the one event of 1 not.
func NoneOf(n int64, noun string) string {
	if n == 1 {
		return "the " + noun + " could not"
	}
	return "none of " + Counted(n, noun) + " could"
}

// Seconds writes a length of time as people say it: 850ms, 42s, 3m20s, 5h10m.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}

// Relative says how long ago a time was or how far ahead it is, to the nearest minute, hour or day.
func Relative(t, now time.Time) string {
	d := t.Sub(now)
	for _, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute} {
		if d.Abs() >= unit {
			d = d.Round(unit)
			break
		}
	}
	return humanize.RelTime(now.Add(d), now, "ago", "from now")
}

// OneOf reports that a value is none of those it can be, and which it was most likely meant to be.
func OneOf(flag, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return DidYouMean(fault.Usagef("%s: %q is none of %s", flag, value, strings.Join(known, ", ")), value, known, "")
}

// DidYouMean adds the known word that a word was most likely meant to be to an error, or another
// hint when none is close.
func DidYouMean(err error, word string, known []string, otherwise string) error {
	if similar := catalogue.Nearest(word, known); similar != "" {
		return fault.Hint(err, "did you mean %s?", similar)
	}
	if otherwise != "" {
		return fault.Hint(err, "%s", otherwise)
	}
	return err
}

// ParseRate reads a number per second as people write it: 200, 200/s, 30/m.
func ParseRate(text string) (perSecond float64, err error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	seconds := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || seconds == 0 || !(n > 0) || n > 1e9 {
		return 0, fmt.Errorf("%q is not a rate such as 200/s, 200 or 30/m", text)
	}
	return n / seconds, nil
}

// ParseShare reads a share: 5% or 0.05.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		n /= 100
	}
	if err != nil || !(n >= 0 && n <= 1) {
		return 0, fmt.Errorf("%q is not a share such as 5%% or 0.05", text)
	}
	return n, nil
}

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
