package cli

import (
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
)

// CellStyle turns values into cells: relative times and grouped digits for a person at a terminal, RFC 3339 and plain numbers
// for a pipe.
type CellStyle struct {
	app   *App
	human bool
}

func (a *App) renderer() *CellStyle { return &CellStyle{app: a, human: a.OutTTY} }

// Time shows an instant; the zero time is empty.
func (s *CellStyle) Time(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case s.human:
		return humanize.RelTime(t, s.app.Now(), "ago", "from now")
	default:
		return t.UTC().Format(time.RFC3339Nano)
	}
}

// TimePtr is time for a value that may be absent.
func (s *CellStyle) TimePtr(t *time.Time) string {
	if t == nil {
		return ""
	}
	return s.Time(*t)
}

// Count shows a number of things.
func (s *CellStyle) Count(n int64) string {
	if s.human {
		return humanize.Comma(n)
	}
	return strconv.FormatInt(n, 10)
}

// Text is a text that may be absent.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
