package wire

import (
	"fmt"
	"strings"
)

// FieldProblem is one thing that is wrong with an event.
type FieldProblem struct {
	// Field is the path of the field: aggregateId, data.status, data.vendorOrderIds[2].
	Field string
	// Problem reads after the field's name: "is required".
	Problem string
}

// Problems are all things that are wrong with an event.
type Problems []FieldProblem

// String names the first five: an array of ten thousand bad ids is one mistake.
func (p Problems) String() string {
	const most = 5
	texts := make([]string, 0, most+1)
	for i, one := range p {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(p)-most))
			break
		}
		texts = append(texts, one.Field+" "+one.Problem)
	}
	return strings.Join(texts, "; ")
}

// PayloadError is what a catalogue returns for data that is not a valid payload of EventType. It
// holds field names and never values, so that it can be logged and stored.
type PayloadError struct {
	EventType string
	Problems  Problems
}

func (e *PayloadError) Error() string {
	return "invalid payload of " + e.EventType + ": " + e.Problems.String()
}
