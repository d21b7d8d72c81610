package packfinderz

import (
	"encoding/json"

	"github.com/google/uuid"
)

// Schema returns the type's payload as a JSON Schema, for catalogues that are written down.
// Together with two policies, that {} is valid and that no other member is allowed, it judges as
// Validate does.
func (t Type) Schema() string {
	properties, required := map[string]any{}, []string{}
	for _, f := range t.Fields {
		properties[f.Name] = f.schema()
		if f.Required {
			required = append(required, f.Name)
		}
	}
	text, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	if err != nil {
		return "" // maps of texts always encode
	}
	return string(text)
}

// schema describes the field's value. A null counts as absent, so an optional field may be null.
func (f Field) schema() map[string]any {
	s := map[string]any{}
	only := func(types ...string) {
		if !f.Required {
			types = append(types, "null")
		}
		if s["type"] = types; len(types) == 1 {
			s["type"] = types[0]
		}
	}
	switch f.kind {
	case id:
		s = idSchema()
		only("string")
	case ids:
		s["items"] = idSchema()
		only("array")
	case integer:
		s["format"] = "int64"
		only("integer")
	case timestamp:
		s["format"] = "date-time"
		only("string")
	case date:
		s["format"] = "date"
		only("string")
	case document:
		only("object", "array")
	case text:
		only("string")
		if len(f.values) > 0 {
			s["enum"] = f.values
		} else if f.Required {
			s["minLength"] = 1
		}
	}
	return s
}

func idSchema() map[string]any {
	return map[string]any{"type": "string", "format": "uuid", "not": map[string]any{"const": uuid.Nil.String()}}
}
