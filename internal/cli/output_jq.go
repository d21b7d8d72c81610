package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/itchyny/gojq"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// jqQuery is a jq expression, compiled.
type jqQuery struct {
	text string
	code *gojq.Code
}

// jqFlag reads --jq; what is wrong with the expression is told before anything is asked of a server.
type jqFlag struct{ query **jqQuery }

func (f *jqFlag) String() string {
	if f.query == nil || *f.query == nil {
		return ""
	}
	return (*f.query).text
}

// Type implements pflag.Value.
func (f *jqFlag) Type() string { return "expression" }

// Set implements pflag.Value.
func (f *jqFlag) Set(text string) error {
	parsed, err := gojq.Parse(text)
	if err != nil {
		return err
	}
	code, err := gojq.Compile(parsed)
	*f.query = &jqQuery{text, code}
	return err
}

// write prints what the expression makes of a value: texts as they are, everything else as JSON, one on a line.
func (q *jqQuery) write(w io.Writer, value any) error {
	doc, err := marshalJSON(value, "")
	if err != nil {
		return err
	}
	var input any
	if err := json.Unmarshal(doc, &input); err != nil {
		return fmt.Errorf("read own output: %w", err)
	}
	results := q.code.Run(input)
	for {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		switch result := result.(type) {
		case error:
			return fault.Usagef("--jq: %w", result)
		case string:
			_, err = fmt.Fprintln(w, safetext.Block(result))
		default:
			err = EncodeJSON(w, result, "")
		}
		if err != nil {
			return err
		}
	}
}

// jqList hands the whole list to the expression, as the array that -o json prints.
type jqList[T any] struct {
	out    io.Writer
	query  *jqQuery
	fields []string
	rows   []any
}

func (l *jqList[T]) Write(row T) error {
	picked, err := pick(row, l.fields)
	l.rows = append(l.rows, picked)
	return err
}

func (l *jqList[T]) Close() error {
	if l.rows == nil {
		l.rows = []any{}
	}
	return l.query.write(l.out, l.rows)
}
