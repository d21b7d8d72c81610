package cmd

import (
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
)

// cellStyle turns values into cells: relative times and grouped digits for a person at a terminal, RFC 3339 and plain numbers
// for a pipe.
type cellStyle struct {
	app   *App
	human bool
}

func (a *App) renderer() *cellStyle { return &cellStyle{app: a, human: a.OutTTY} }

// time shows an instant; the zero time is empty.
func (s *cellStyle) time(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case s.human:
		return humanize.RelTime(t, s.app.Now(), "ago", "from now")
	default:
		return t.UTC().Format(time.RFC3339Nano)
	}
}

// timePtr is time for a value that may be absent.
func (s *cellStyle) timePtr(t *time.Time) string {
	if t == nil {
		return ""
	}
	return s.time(*t)
}

// count shows a number of things.
func (s *cellStyle) count(n int64) string {
	if s.human {
		return humanize.Comma(n)
	}
	return strconv.FormatInt(n, 10)
}
