package packfinderz

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// kind is the type of a field's value, as the documentation prints it.
type kind string

const (
	id        kind = "uuid"
	ids       kind = "array of uuid"
	text      kind = "string"
	integer   kind = "integer"
	timestamp kind = "timestamp (RFC 3339)"
	date      kind = "date (YYYY-MM-DD)"
	document  kind = "object or array"
)

func required(name string, k kind) Field {
	return Field{Name: name, Type: string(k), Required: true, kind: k}
}

func optional(name string, k kind) Field { return Field{Name: name, Type: string(k), kind: k} }

// oneOf is a required text with few allowed values.
func oneOf(name string, values ...string) Field {
	return Field{Name: name, Type: "string: " + strings.Join(values, ", "), Required: true, kind: text, values: values}
}

// checker collects what is wrong with a payload.
type checker struct{ problems wire.Problems }

// fail adds a problem of a member of data.
func (c *checker) fail(name, problem string) { c.add("data."+name, problem) }

func (c *checker) add(field, problem string) {
	c.problems = append(c.problems, wire.FieldProblem{Field: field, Problem: problem})
}

// value checks the value of a field that is there.
func (c *checker) value(f Field, raw json.RawMessage) {
	switch f.kind {
	case id:
		c.id(f.Name, raw)
	case ids:
		c.ids(f.Name, raw)
	case text:
		c.text(f, raw)
	case integer:
		c.integer(f.Name, raw)
	case timestamp:
		c.timestamp(f.Name, raw)
	case date:
		if s, ok := c.str(f.Name, raw); ok {
			if _, err := time.Parse(time.DateOnly, s); err != nil {
				c.fail(f.Name, "must be a date as YYYY-MM-DD")
			}
		}
	case document:
		if raw[0] != '{' && raw[0] != '[' {
			c.fail(f.Name, "must be an object or an array, not "+jsonb.Kind(raw[0]))
		}
	}
}

func (c *checker) str(name string, raw json.RawMessage) (string, bool) {
	s, ok := jsonb.String(raw)
	if !ok {
		c.fail(name, "must be a string, not "+jsonb.Kind(raw[0]))
	}
	return s, ok
}

func (c *checker) text(f Field, raw json.RawMessage) {
	s, ok := c.str(f.Name, raw)
	switch {
	case !ok:
	case len(f.values) > 0 && !slices.Contains(f.values, s):
		c.fail(f.Name, "must be one of "+strings.Join(f.values, ", "))
	case f.Required && s == "":
		c.fail(f.Name, "must not be empty")
	}
}

// id takes a UUID in its canonical form; the other spellings that parsers tolerate would make ids
// that do not compare equal as text. The nil UUID is what a Go emitter writes when it forgets one.
func (c *checker) id(name string, raw json.RawMessage) {
	s, ok := c.str(name, raw)
	if !ok {
		return
	}
	_, err := wire.ParseID(s)
	switch {
	case err == nil:
	case s == "":
		c.fail(name, "must not be empty")
	case s == uuid.Nil.String():
		c.fail(name, "must not be the nil uuid")
	default:
		c.fail(name, "must be a uuid")
	}
}

func (c *checker) ids(name string, raw json.RawMessage) {
	if raw[0] != '[' {
		c.fail(name, "must be an array, not "+jsonb.Kind(raw[0]))
		return
	}
	for i, element := range jsonb.Elements(raw) {
		if s, ok := jsonb.String(element); ok {
			if _, err := wire.ParseID(s); err == nil {
				continue // the name of an element is made for the few that are refused
			}
		}
		c.id(name+"["+strconv.Itoa(i)+"]", element)
	}
}

func (c *checker) integer(name string, raw json.RawMessage) {
	if b := raw[0]; b != '-' && (b < '0' || b > '9') {
		c.fail(name, "must be an integer, not "+jsonb.Kind(raw[0]))
	} else if _, err := strconv.ParseInt(string(raw), 10, 64); err != nil {
		c.fail(name, "must be an integer of at most 64 bits")
	}
}

// timestamp refuses the zero time too: it is what a Go emitter writes when it forgets the field.
func (c *checker) timestamp(name string, raw json.RawMessage) {
	s, ok := c.str(name, raw)
	if !ok {
		return
	}
	at, err := wire.ParseTime(s)
	switch {
	case s == "":
		c.fail(name, "must not be empty")
	case err != nil:
		c.fail(name, err.Error())
	case at.IsZero():
		c.fail(name, "must not be the zero time")
	}
}
