package cli

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// CellStyle turns values into cells: relative times and grouped digits for a person at a terminal,
// RFC 3339 and plain numbers for a pipe.
type CellStyle struct {
	app   *App
	human bool
	// idLength is how much of an id is shown; 0 shows all of it.
	idLength int
}

func (a *App) renderer() *CellStyle { return &CellStyle{app: a, human: a.OutTTY} }

// Time shows an instant; the zero time is empty.
func (s *CellStyle) Time(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case s.human:
		return Age(s.app.Now().Sub(t))
	default:
		return t.UTC().Format(time.RFC3339Nano)
	}
}

// Age is a span of time in its largest unit, as in 25s, 3m, 2h or 5d. What lies ahead is "in 3m".
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "in " + Age(-d)
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 24*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	default:
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
}

// ID shows the id of an event or a dead letter, or its beginning.
func (s *CellStyle) ID(id string) string {
	if s.idLength > 0 && s.idLength < len(id) {
		return id[:s.idLength]
	}
	return id
}

// Error shows why an event failed. What all errors of its kind begin with leaves a person no room
// for the rest, nor does the type where another cell of the row says it.
func (s *CellStyle) Error(text, said string) string {
	problem, found := strings.CutPrefix(text, "invalid payload of ")
	if !s.human || !found {
		return text
	}
	return strings.TrimPrefix(problem, said+": ")
}

// any shows a value by its type; nothing for what is absent.
func (s *CellStyle) any(value reflect.Value) string {
	value = reflect.Indirect(value)
	switch {
	case !value.IsValid():
		return ""
	case value.CanInt():
		return s.Count(value.Int())
	}
	if t, isTime := value.Interface().(time.Time); isTime {
		return s.Time(t)
	}
	return fmt.Sprint(value)
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
