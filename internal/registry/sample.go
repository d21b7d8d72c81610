package registry

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/catalogue"
)

// Sample is data that a type's schema accepts, with what it requires and no more. Where none is
// found, as for a pattern, the values that have to be filled in are "…".
func Sample(t catalogue.Type) json.RawMessage {
	var schema any
	if json.Unmarshal(t.Schema.JSON(), &schema) != nil {
		return json.RawMessage("{}")
	}
	root, _ := schema.(map[string]any)
	text, err := json.Marshal(sampler{root}.value(root, 0))
	if err != nil {
		return json.RawMessage("{}") // such values always encode
	}
	return text
}

// sampler makes values of the schemas below a root, to which their references lead.
type sampler struct{ root map[string]any }

// deepest ends schemas that contain themselves.
const deepest = 20

func (s sampler) value(schema map[string]any, depth int) any {
	schema = s.resolve(schema)
	if depth > deepest {
		return nil
	}
	for _, word := range []string{"const", "default"} {
		if v, ok := schema[word]; ok {
			return v
		}
	}
	for _, word := range []string{"enum", "examples"} {
		if list, _ := schema[word].([]any); len(list) > 0 {
			return list[0]
		}
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		if list, _ := schema[word].([]any); len(list) > 0 {
			one, _ := list[0].(map[string]any)
			merged := maps.Clone(schema)
			delete(merged, word)
			maps.Copy(merged, s.resolve(one))
			return s.value(merged, depth+1)
		}
	}
	kind, _ := schema["type"].(string)
	if list, _ := schema["type"].([]any); len(list) > 0 {
		kind, _ = list[0].(string)
	}
	switch {
	case kind == "object" || kind == "" && (schema["properties"] != nil || schema["required"] != nil || depth == 0):
		return s.object(schema, depth)
	case kind == "array":
		items, _ := schema["items"].(map[string]any)
		list := []any{}
		for range int(numberOf(schema, "minItems", 0)) {
			list = append(list, s.value(items, depth+1))
		}
		return list
	case kind == "integer", kind == "number":
		return numeric(schema)
	case kind == "boolean":
		return false
	case kind == "null":
		return nil
	}
	return textual(schema)
}

// resolve follows references inside the schema, and joins what must hold together.
func (s sampler) resolve(schema map[string]any) map[string]any {
	for range deepest {
		ref, ok := schema["$ref"].(string)
		if !ok {
			break
		}
		var at any = s.root
		for _, part := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
			object, _ := at.(map[string]any)
			at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		}
		schema, _ = at.(map[string]any)
	}
	all, _ := schema["allOf"].([]any)
	for _, one := range all {
		part, _ := one.(map[string]any)
		merged := maps.Clone(schema)
		delete(merged, "allOf")
		for name, value := range s.resolve(part) {
			former, _ := merged[name].(map[string]any)
			more, _ := value.(map[string]any)
			if name == "properties" && former != nil && more != nil {
				value = maps.Collect(maps.All(former))
				maps.Copy(value.(map[string]any), more)
			}
			if list, ok := merged[name].([]any); ok && name == "required" {
				added, _ := value.([]any)
				value = append(slices.Clone(list), added...)
			}
			merged[name] = value
		}
		schema = merged
	}
	return schema
}

func (s sampler) object(schema map[string]any, depth int) map[string]any {
	object := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		name, _ := name.(string)
		of, _ := properties[name].(map[string]any)
		object[name] = s.value(of, depth+1)
	}
	return object
}

func numberOf(schema map[string]any, word string, otherwise float64) float64 {
	if n, ok := schema[word].(float64); ok {
		return n
	}
	return otherwise
}

func numeric(schema map[string]any) float64 {
	n := numberOf(schema, "minimum", 0)
	n = max(n, numberOf(schema, "exclusiveMinimum", n-1)+1)
	n = min(n, numberOf(schema, "maximum", n), numberOf(schema, "exclusiveMaximum", n+1)-1)
	if of := numberOf(schema, "multipleOf", 0); of > 0 {
		n = math.Ceil(n/of) * of
	}
	return n
}

func textual(schema map[string]any) string {
	switch schema["format"] {
	case "uuid":
		return "00000000-0000-4000-8000-000000000001"
	case "date-time":
		return "2026-01-02T03:04:05Z"
	case "date":
		return "2026-01-02"
	case "time":
		return "03:04:05Z"
	case "email":
		return "name@example.com"
	case "uri", "uri-reference", "iri":
		return "https://example.com/"
	case "ipv4":
		return "192.0.2.1"
	}
	return strings.Repeat("…", max(int(numberOf(schema, "minLength", 1)), 1))
}
