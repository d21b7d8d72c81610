package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// EncodeJSON writes one value as JSON that no terminal acts on.
func EncodeJSON(w io.Writer, value any, indent string) error {
	doc, err := marshalJSON(value, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(safetext.JSON(doc))
	return err
}

func marshalJSON(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return b.Bytes(), nil
}

// encoded is a list whose rows go out as JSON: each to one function, and the end of the list to
// another.
type encoded[T any] struct {
	each func(row any) error
	end  func() error
}

func (l *encoded[T]) Write(row T) error { return l.each(row) }

func (l *encoded[T]) Close() error { return l.end() }

// jsonArray writes rows as they come, in one array.
func jsonArray(out io.Writer) (each func(any) error, end func() error) {
	some := false
	each = func(row any) error {
		open := ",\n"
		if !some {
			open = "[\n"
		}
		some = true
		var b strings.Builder
		if err := EncodeJSON(&b, row, "  "); err != nil {
			return err
		}
		body := strings.ReplaceAll(strings.TrimRight(b.String(), "\n"), "\n", "\n  ")
		_, err := io.WriteString(out, open+"  "+body)
		return err
	}
	return each, func() error {
		end := "\n]\n"
		if !some {
			end = "[]\n"
		}
		_, err := io.WriteString(out, end)
		return err
	}
}

// whole writes all rows at the end.
func whole(write func(rows any) error) (each func(any) error, end func() error) {
	rows := []any{}
	each = func(row any) error { rows = append(rows, row); return nil }
	return each, func() error { return write(rows) }
}

type idList[T any] struct {
	out  io.Writer
	view View[T]
}

func (l *idList[T]) Write(row T) error {
	var id string
	if l.view.ID != nil {
		id = l.view.ID(row)
	} else {
		value, _ := fieldOf(reflect.ValueOf(row), "id")
		id = fmt.Sprint(value)
	}
	_, err := fmt.Fprintln(l.out, safetext.Line(id))
	return err
}
func (l *idList[T]) Close() error { return nil }
