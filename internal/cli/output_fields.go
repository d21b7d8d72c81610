package cli

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxctl/outboxctl/internal/fault"
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

func checkFields(fields, keys []string) error {
	for _, field := range fields {
		if !slices.Contains(keys, field) {
			return fault.Hint(fault.Usagef("there is no field %q", field), "the fields are %s",
				strings.Join(keys, ","))
		}
	}
	return nil
}

// pick returns a value's JSON with only these keys of it, in this order; all of it without any.
func pick(value any, fields []string) (any, error) {
	if fields == nil {
		return value, nil
	}
	all, err := fieldsOf(value)
	if err != nil {
		return nil, err
	}
	members := make([]string, len(fields))
	for i, field := range fields {
		value := string(all[field])
		members[i] = strconv.Quote(field) + ":" + cmp.Or(value, "null")
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}"), nil
}

func fieldsOf(value any) (map[string]json.RawMessage, error) {
	doc, err := marshalJSON(value, "")
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	return all, json.Unmarshal(doc, &all)
}

// fieldTexts are the fields of a row as text: a string without its quotes, nothing for null, JSON
// for what has parts.
func fieldTexts(row any, fields []string) []string {
	all, err := fieldsOf(row)
	texts := make([]string, len(fields))
	for i, field := range fields {
		raw := all[field]
		if err != nil || json.Unmarshal(raw, &texts[i]) == nil {
			continue // null leaves the text empty
		}
		texts[i] = string(raw)
	}
	return texts
}

// separated is CSV, and on a pipe a table with tabs between its fields.
type separated[T any] struct {
	line   func(cells []string) error
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

func (s *separated[T]) Write(row T) error {
	if err := s.head(); err != nil {
		return err
	}
	return s.line(fieldTexts(row, s.fields))
}

func (s *separated[T]) Close() error { return s.head() }

// csvLine quotes what CSV must quote, and keeps a spreadsheet from running a cell.
func csvLine(out io.Writer) func([]string) error {
	w := csv.NewWriter(out)
	return func(cells []string) error {
		for i := range cells {
			cells[i] = safetext.CSVCell(cells[i])
		}
		if err := w.Write(cells); err != nil {
			return err
		}
		w.Flush()
		return w.Error()
	}
}

// tabLine quotes nothing: no cell holds a tab or the end of a line once it is safe to show.
func tabLine(out io.Writer) func([]string) error {
	return func(cells []string) error {
		for i := range cells {
			cells[i] = safetext.Line(cells[i])
		}
		_, err := io.WriteString(out, strings.Join(cells, "\t")+"\n")
		return err
	}
}
