package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// checker judges the data of one event type.
type checker struct {
	// packfinderz, when set, is the type of package packfinderz, which judges alone.
	packfinderz *packfinderz.Type
	// object: data must be one. It is for types without a JSON Schema.
	object bool
	// plain is the type's schema; strict, which is nil where no members are named, refuses the others
	// too.
	plain, strict *jsonschema.Schema
}

// Check checks data as a publisher has to, and returns how many members of it the schema does not
// name where these are to be counted. Where the type is checked by emitters only, every data is
// fine.
func (c *Catalogue) Check(namespace, eventType string, data json.RawMessage) (extra int, err error) {
	t := c.find(namespace, eventType)
	if t == nil {
		return 0, fmt.Errorf("unknown event type %q", cut(eventType))
	}
	if t.Check == CheckEmit {
		return 0, nil
	}
	return t.judge(data, t.ExtraFields == Refuse)
}

// ready is a checker that needs no work before its first use.
func ready(c *checker) func() (*checker, error) { return func() (*checker, error) { return c, nil } }

// judge returns how many members are extra, where they are neither refused nor allowed.
func (t *Type) judge(data json.RawMessage, refuseExtra bool) (extra int, err error) {
	c, err := t.check()
	if err != nil {
		return 0, err
	}
	if c.packfinderz != nil {
		return 0, packfinderz.Catalogue{}.Validate(t.Name, data)
	}
	extras, problems := c.run(bytes.TrimSpace(data), t.Empty == Allow, t.ExtraFields != Allow)
	if refuseExtra {
		problems = append(problems, extras...)
	}
	if len(problems) > 0 {
		return 0, &wire.PayloadError{EventType: t.Name, Problems: problems}
	}
	return len(extras), nil
}

// run returns the members that no schema names and what else is wrong.
func (c *checker) run(data json.RawMessage, emptyAllowed, wantExtras bool) (extras,
	problems wire.Problems) {
	one := func(problem string) wire.Problems {
		return wire.Problems{{Field: "data", Problem: problem}}
	}
	switch {
	case len(data) == 0:
		return nil, one("is required")
	case string(data) == "null":
		return nil, one("must not be null; an event without data carries {}")
	case c.object && data[0] != '{':
		return nil, one("must be an object")
	case c.plain == nil, emptyAllowed && isEmptyObject(data):
		return nil, nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, one("is not JSON")
	}
	if path, found := longNumber(value); found {
		return nil, wire.Problems{{Field: "data" + path,
			Problem: fmt.Sprintf("has more than %d digits; send such a number as a string", maxDigits)}}
	}
	schema := c.plain
	if c.strict != nil && wantExtras {
		schema = c.strict
	}
	var found *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &found) {
		for _, leaf := range leaves(found) {
			problem := problemsAt(leaf, value, "data")
			if strings.HasPrefix(leaf.SchemaURL, strictURL) && len(leaf.InstanceLocation) == 1 {
				extras = append(extras, problem...)
			} else {
				problems = append(problems, problem...)
			}
		}
	}
	if len(problems) > 0 {
		extras = nil // behind a part that fails, members seem to be unnamed that are not
	}
	sortProblems(extras)
	sortProblems(problems)
	return extras, problems
}

func isEmptyObject(data json.RawMessage) bool {
	return data[0] == '{' && len(bytes.TrimSpace(data[1:len(data)-1])) == 0
}
