package catalogue

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Of completes a type with its name and with the schema of what T is encoded to by encoding/json. A
// member is required unless it is omitted when it is empty; what may be null in Go (a pointer, a
// slice, a map) may be null. Kinds that JSON does not have, and structs that contain themselves,
// are a problem that Build returns.
//
//	cat, err := catalogue.New("doorito", catalogue.Of[OrderReady]("order.ready", catalogue.Type{Topic: "orders", Aggregate: "order"}))
func Of[T any](name string, t Type) Type {
	t.Name = name
	schema, err := schemaOf(reflect.TypeFor[T](), nil)
	if err == nil {
		var text string
		text, err = canonical(schema)
		t.Schema = Schema(text)
	}
	if err != nil {
		t.problem = fmt.Errorf("no schema of %s: %w", reflect.TypeFor[T](), err)
	}
	return t
}

type schemaObject = map[string]any

// schemaOf describes a Go type; within are the structs that it is in.
func schemaOf(t reflect.Type, within []reflect.Type) (schemaObject, error) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return schemaObject{"type": "string", "format": "date-time"}, nil
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return schemaObject{}, nil // it may be anything
	case t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return schemaObject{"type": "string"}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(schemaOf(t.Elem(), within))
	case reflect.Interface:
		return schemaObject{}, nil
	case reflect.String:
		return schemaObject{"type": "string"}, nil
	case reflect.Bool:
		return schemaObject{"type": "boolean"}, nil
	case reflect.Float32, reflect.Float64:
		return schemaObject{"type": "number"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return schemaObject{"type": "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return schemaObject{"type": "integer", "minimum": 0}, nil
	case reflect.Slice, reflect.Array:
		return listSchema(t, within)
	case reflect.Map:
		element, err := schemaOf(t.Elem(), within)
		return nullable(schemaObject{"type": "object", "additionalProperties": element}, err)
	case reflect.Struct:
		if slices.Contains(within, t) {
			return nil, fmt.Errorf("%s contains itself; write its schema by hand", t)
		}
		return structSchema(t, append(slices.Clone(within), t))
	}
	return nil, fmt.Errorf("JSON has no %s", t.Kind())
}

func listSchema(t reflect.Type, within []reflect.Type) (schemaObject, error) {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return nullable(schemaObject{"type": "string", "contentEncoding": "base64"}, nil)
	}
	element, err := schemaOf(t.Elem(), within)
	list := schemaObject{"type": "array", "items": element}
	if t.Kind() == reflect.Array {
		list["minItems"], list["maxItems"] = t.Len(), t.Len()
		return list, err
	}
	return nullable(list, err)
}

// nullable lets null be a value, too.
func nullable(schema schemaObject, err error) (schemaObject, error) {
	if kind, ok := schema["type"].(string); ok {
		schema["type"] = []any{kind, "null"}
	}
	return schema, err
}

func structSchema(t reflect.Type, within []reflect.Type) (schemaObject, error) {
	properties, required := schemaObject{}, []any{}
	for _, field := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		promoted := field.Anonymous && name == "" && structBehind(field.Type)
		named, pointer := inside(t, field)
		if !field.IsExported() || promoted || field.Tag.Get("json") == "-" || named {
			continue
		}
		name = cmp.Or(name, field.Name)
		schema, err := schemaOf(field.Type, within)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		given := strings.Split(options, ",")
		if slices.Contains(given, "string") {
			schema = schemaObject{"type": "string"}
		}
		properties[name] = schema
		if !slices.Contains(given, "omitempty") && !slices.Contains(given, "omitzero") && !pointer {
			required = append(required, name)
		}
	}
	schema := schemaObject{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema, nil
}

// structBehind reports whether a type is a struct or a pointer to one, whose fields an embedded one
// promotes.
func structBehind(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

// inside reports whether a field is one of an embedded struct that has a name of its own, under which
// it is encoded, and whether it is one of an embedded pointer, and missing where that is nil.
func inside(t reflect.Type, field reflect.StructField) (named, pointer bool) {
	for i := 1; i < len(field.Index); i++ {
		outer := t.FieldByIndex(field.Index[:i])
		name, _, _ := strings.Cut(outer.Tag.Get("json"), ",")
		named, pointer = named || name != "", pointer || outer.Type.Kind() == reflect.Pointer
	}
	return named, pointer
}
