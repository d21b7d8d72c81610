package builtin

import (
	"errors"
	"strconv"
	"strings"
)

// ErrUnknownEventType says that the catalogue has no such event type.
var ErrUnknownEventType = errors.New("unknown event type")

// FieldProblem is one thing that is wrong with a payload.
type FieldProblem struct {
	// Field is the path from the envelope: data.status, data.vendorOrderIds[2].
	Field string
	// Problem reads after the field's name: "is required".
	Problem string
}

// PayloadError says why data is not a valid payload of EventType. It holds field
// names, never values, so that it can be logged and stored.
type PayloadError struct {
	EventType string
	Problems  []FieldProblem
}

// mostShown bounds the message: an array of ten thousand bad ids is one mistake.
const mostShown = 5

func (e *PayloadError) Error() string {
	var b strings.Builder
	b.WriteString("invalid payload of " + e.EventType + ": ")
	for i, p := range e.Problems {
		if i == mostShown {
			b.WriteString("; and " + strconv.Itoa(len(e.Problems)-mostShown) + " more")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(p.Field + " " + p.Problem)
	}
	return b.String()
}

// FieldProblems lists the problems as pairs of field and problem, for callers that
// know this package only through an interface.
func (e *PayloadError) FieldProblems() [][2]string {
	pairs := make([][2]string, len(e.Problems))
	for i, p := range e.Problems {
		pairs[i] = [2]string{p.Field, p.Problem}
	}
	return pairs
}
