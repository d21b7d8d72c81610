package catalogue

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Field is a member of a payload that its schema names.
type Field struct {
	Name string
	// Type describes what the member is, for people.
	Type     string
	Required bool
}

// JSON is the schema as JSON; nil where any JSON is allowed.
func (s Schema) JSON() json.RawMessage {
	switch s {
	case Any:
		return nil
	case "", Object:
		return json.RawMessage(anyObject)
	}
	return json.RawMessage(s)
}

// Fields lists the members that the schema names at its top, sorted by name.
func (s Schema) Fields() []Field {
	var top struct {
		Properties map[string]map[string]any
		Required   []string
	}
	if json.Unmarshal(s.JSON(), &top) != nil {
		return nil // properties that are true or false say nothing of a type
	}
	fields := make([]Field, 0, len(top.Properties))
	for _, name := range slices.Sorted(maps.Keys(top.Properties)) {
		required := slices.Contains(top.Required, name)
		fields = append(fields, Field{name, kindOf(top.Properties[name]), required})
	}
	return fields
}

// Fields lists the members that the type's schema names. Those of the built-in types keep their
// order and words.
func (t Type) Fields() []Field {
	if c, err := t.check(); err == nil && c.packfinderz != nil {
		fields := make([]Field, len(c.packfinderz.Fields))
		for i, f := range c.packfinderz.Fields {
			fields[i] = Field{f.Name, f.Type, f.Required}
		}
		return fields
	}
	return t.Schema.Fields()
}

func kindOf(schema map[string]any) string {
	if allowed, ok := schema["enum"].([]any); ok {
		return values(allowed)
	}
	var types []string
	switch t := schema["type"].(type) {
	case string:
		types = []string{t}
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				types = append(types, name)
			}
		}
	}
	kind := strings.Join(types, " or ")
	if format, ok := schema["format"].(string); ok {
		return strings.TrimPrefix(kind+": "+format, ": ")
	}
	if kind == "" {
		return "any"
	}
	return kind
}
