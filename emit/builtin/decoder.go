package builtin

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/wire"
)

const (
	required = true
	optional = false
)

// decoder reads the fields of one JSON object and collects what is wrong with
// them. Without an object (members nil, describing true) it only records which
// fields it was asked for: that is how the catalogue's documentation is made from
// the very code that decodes.
type decoder struct {
	members    []member
	problems   []FieldProblem
	describing bool
	fields     []Field
}

// take removes a member and reports whether there is a value to read. A null
// counts as absent: for a required field both are problems, for an optional one
// neither is.
func (d *decoder) take(name, kind string, req bool) (json.RawMessage, bool) {
	if d.describing {
		d.fields = append(d.fields, Field{Name: name, Type: kind, Required: req})
		return nil, false
	}
	var raw json.RawMessage
	for i := range d.members {
		// A name that comes twice counts with its last value, as in PostgreSQL.
		if d.members[i].name == name {
			d.members[i].taken = true
			raw = d.members[i].value
		}
	}
	if raw != nil && string(raw) != "null" {
		return raw, true
	}
	if req {
		d.fail(name, "is required")
	}
	return nil, false
}

func (d *decoder) fail(name, problem string) {
	d.problems = append(d.problems, FieldProblem{Field: "data." + name, Problem: problem})
}

// finish reports the members nobody asked for.
func (d *decoder) finish() {
	for _, m := range d.members {
		if !m.taken {
			d.fail(shortName(m.name), "is not a field of this payload")
		}
	}
}

func (d *decoder) text(name string, req bool, into *string) {
	raw, ok := d.take(name, "string", req)
	if !ok {
		return
	}
	s, ok := d.str(name, raw)
	if ok && req && s == "" {
		d.fail(name, "must not be empty")
	}
	*into = s
}

func (d *decoder) oneOf(name string, req bool, into *string, values ...string) {
	raw, ok := d.take(name, "string: "+strings.Join(values, ", "), req)
	if !ok {
		return
	}
	s, ok := d.str(name, raw)
	if ok && !slices.Contains(values, s) {
		d.fail(name, "must be one of "+strings.Join(values, ", "))
	}
	*into = s
}

func (d *decoder) uuid(name string, req bool, into *uuid.UUID) {
	if raw, ok := d.take(name, "uuid", req); ok {
		*into = d.id(name, raw)
	}
}

func (d *decoder) uuids(name string, req bool, into *[]uuid.UUID) {
	raw, ok := d.take(name, "array of uuid", req)
	if !ok {
		return
	}
	var elements []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &elements) != nil {
		d.fail(name, "must be an array, not "+kindOf(raw))
		return
	}
	ids := make([]uuid.UUID, len(elements))
	for i, element := range elements {
		ids[i] = d.id(name+"["+strconv.Itoa(i)+"]", element)
	}
	*into = ids
}

func (d *decoder) integer(name string, into *int64) {
	if raw, ok := d.take(name, "integer", required); ok {
		*into = d.int(name, raw)
	}
}

func (d *decoder) optionalInteger(name string, into **int64) {
	if raw, ok := d.take(name, "integer", optional); ok {
		n := d.int(name, raw)
		*into = &n
	}
}

// timestamp refuses the zero time too: it is what a Go emitter writes when it
// forgets the field.
func (d *decoder) timestamp(name string, into *time.Time) {
	raw, ok := d.take(name, "timestamp (RFC 3339)", required)
	if !ok {
		return
	}
	s, ok := d.str(name, raw)
	if !ok {
		return
	}
	at, err := wire.ParseTime(s)
	switch {
	case s == "":
		d.fail(name, "must not be empty")
	case err != nil:
		d.fail(name, err.Error())
	case at.IsZero():
		d.fail(name, "must not be the zero time")
	}
	*into = at
}

func (d *decoder) date(name string, into *string) {
	raw, ok := d.take(name, "date (YYYY-MM-DD)", required)
	if !ok {
		return
	}
	s, ok := d.str(name, raw)
	if !ok {
		return
	}
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		d.fail(name, "must be a date as YYYY-MM-DD")
	}
	*into = s
}

func (d *decoder) document(name string, into *json.RawMessage) {
	raw, ok := d.take(name, "object or array", optional)
	if !ok {
		return
	}
	if raw[0] != '{' && raw[0] != '[' {
		d.fail(name, "must be an object or an array, not "+kindOf(raw))
		return
	}
	*into = bytes.Clone(raw)
}

func (d *decoder) str(name string, raw json.RawMessage) (string, bool) {
	if raw[0] != '"' {
		d.fail(name, "must be a string, not "+kindOf(raw))
		return "", false
	}
	return unquote(raw), true
}

// id reads a UUID in its canonical 36-character form; the other spellings that
// parsers tolerate (braces, urn:, no hyphens) would make ids that do not compare
// equal as text. The nil UUID is what a Go emitter writes when it forgets one.
func (d *decoder) id(name string, raw json.RawMessage) uuid.UUID {
	s, ok := d.str(name, raw)
	if !ok {
		return uuid.Nil
	}
	id, err := uuid.Parse(s)
	switch {
	case s == "":
		d.fail(name, "must not be empty")
	case err != nil || len(s) != 36:
		d.fail(name, "must be a uuid")
	case id == uuid.Nil:
		d.fail(name, "must not be the nil uuid")
	}
	return id
}

func (d *decoder) int(name string, raw json.RawMessage) int64 {
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		d.fail(name, "must be an integer, not "+kindOf(raw))
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		d.fail(name, "must be an integer of at most 64 bits")
	}
	return n
}

// kindOf names a JSON value's type from its first byte.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// shortName keeps an unknown field's name, which is the sender's text, from
// flooding an error message.
func shortName(name string) string {
	const most = 64
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}
