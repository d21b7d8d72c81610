package registry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// What registry show prints of a type is accepted by that type.
func TestASampleKeepsItsOwnSchema(t *testing.T) {
	t.Parallel()
	types := registry.New()
	for _, name := range types.EventTypes() {
		found, err := types.Show(registry.TypeParams{Name: name})
		require.NoError(t, err)
		require.NoError(t, types.Validate(name, found.Sample), "%s: %s", name, found.Sample)
	}
	for name, schema := range map[string]catalogue.Schema{
		"any": catalogue.Any, "object": catalogue.Object,
		"formats":  `{"type": "object", "required": ["id", "at", "day", "n"], "properties": {"id": {"type": "string", "format": "uuid"}, "at": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"}, "n": {"type": "integer", "format": "int64"}}}`,
		"bounds":   `{"type": "object", "required": ["a", "b", "c", "d"], "properties": {"a": {"type": "integer", "minimum": 5}, "b": {"type": "number", "exclusiveMinimum": 2, "multipleOf": 2}, "c": {"type": "string", "minLength": 4}, "d": {"type": "integer", "maximum": -1}}}`,
		"choices":  `{"type": "object", "required": ["kind", "v", "w"], "properties": {"kind": {"enum": ["first", "second"]}, "v": {"const": 3}, "w": {"oneOf": [{"type": "boolean"}, {"type": "null"}]}}}`,
		"nested":   `{"type": "object", "required": ["lines"], "properties": {"lines": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/line"}}}, "$defs": {"line": {"type": "object", "required": ["price"], "properties": {"price": {"type": ["number", "null"]}}}}}`,
		"together": `{"allOf": [{"required": ["a"], "properties": {"a": {"type": "string"}}}, {"required": ["b"], "properties": {"b": {"type": "boolean"}}}], "type": "object"}`,
	} {
		c, err := catalogue.New("x", catalogue.Type{Name: "t", Topic: "a", Aggregate: catalogue.None, Schema: schema})
		require.NoError(t, err, name)
		found, _ := c.Find("", "t")
		sample := registry.Sample(found)
		require.NoError(t, c.Validate("t", sample), "%s: %s", name, sample)
	}
}
