package cli

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// jsonKeys are the keys of a row's JSON, in their order. They are the names of its fields in every
// form.
func jsonKeys[T any]() []string { return keysOf(reflect.TypeFor[T]()) }

func keysOf(t reflect.Type) (keys []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for f := range t.Fields() {
		switch name := jsonKey(f); {
		case f.Anonymous && name == "":
			keys = append(keys, keysOf(f.Type)...)
		case f.IsExported() && name != "" && name != "-":
			keys = append(keys, name)
		}
	}
	return keys
}

func jsonKey(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// cell is the column's cell of a row.
func (c Column[T]) cell(row T, s *CellStyle) string {
	if c.Cell != nil {
		return c.Cell(row, s)
	}
	keys := strings.Fields(c.field())
	cells := make([]string, len(keys))
	for i, key := range keys {
		value, _ := fieldOf(reflect.ValueOf(row), key)
		if cells[i] = s.any(value); c.ID {
			cells[i] = s.ID(cells[i])
		}
	}
	return strings.Join(cells, "/")
}

// fieldOf finds the field of a row by its JSON key.
func fieldOf(row reflect.Value, key string) (reflect.Value, bool) {
	if row = reflect.Indirect(row); !row.IsValid() {
		return row, false
	}
	for f, value := range row.Fields() {
		name := jsonKey(f)
		if name == key {
			return value, true
		}
		if f.Anonymous && name == "" {
			if found, ok := fieldOf(value, key); ok {
				return found, true
			}
		}
	}
	return reflect.Value{}, false
}

// fieldTexts are the fields of a row as text: a string without its quotes, nothing for null, JSON
// for what has parts.
func fieldTexts(row any, fields []string) ([]string, error) {
	doc, err := marshalJSON(row, "")
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(doc, &all); err != nil {
		return nil, err
	}
	texts := make([]string, len(fields))
	for i, field := range fields {
		raw := all[field]
		if json.Unmarshal(raw, &texts[i]) != nil { // null leaves the text empty
			texts[i] = string(raw)
		}
	}
	return texts, nil
}

// separated is a table on a pipe, with tabs between its fields. Nothing is quoted: no cell holds a
// tab or the end of a line once it is safe to show.
type separated[T any] struct {
	out    io.Writer
	fields []string
	some   bool
}

func (s *separated[T]) head() error {
	if s.some {
		return nil
	}
	s.some = true
	return s.line(s.fields)
}

func (s *separated[T]) line(cells []string) error {
	for i := range cells {
		cells[i] = safetext.Line(cells[i])
	}
	_, err := io.WriteString(s.out, strings.Join(cells, "\t")+"\n")
	return err
}

func (s *separated[T]) Write(row T) error {
	if err := s.head(); err != nil {
		return err
	}
	cells, err := fieldTexts(row, s.fields)
	if err != nil {
		return err
	}
	return s.line(cells)
}

func (s *separated[T]) Close() error { return s.head() }
