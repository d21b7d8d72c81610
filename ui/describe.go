package ui

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/why"
)

// described is openapi.yaml as JSON, with the schemas of the types in answered. What openapi.yaml
// says of such a schema, such as the words of an enum, is added to it.
func described() ([]byte, error) {
	content, err := files.ReadFile("openapi.yaml")
	if err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	components, _ := doc["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for name, t := range answered() {
		schemas[name] = merged(schemaOf(t, false), schemas[name])
	}
	return json.Marshal(doc)
}

// answered are the types of what the API answers, by the names of their schemas.
func answered() map[string]reflect.Type {
	return map[string]reflect.Type{
		"AuditRun": reflect.TypeFor[dlq.AuditRun](), "AuditRunDetail": reflect.TypeFor[dlq.AuditRunResult](), "EditResult": reflect.TypeFor[dlq.EditResult](), "ConsumerMark": reflect.TypeFor[idem.Mark](),
		"Consumer": reflect.TypeFor[stats.Consumer](), "ConsumerFailure": reflect.TypeFor[consumers.Failure](),
		"DeadLetter": reflect.TypeFor[dlq.Entry](), "DeadLetterDetail": reflect.TypeFor[why.DeadLetterDetail](),
		"Event": reflect.TypeFor[outbox.Event](), "EventDetail": reflect.TypeFor[why.EventDetail](),
		"EventType": reflect.TypeFor[registry.EventType](), "EventTypeDetail": reflect.TypeFor[registry.EventTypeDetail](), "Finding": reflect.TypeFor[Finding](),
		"Group": reflect.TypeFor[dlq.Group](), "History": reflect.TypeFor[stats.HistoryReport](), "Pause": reflect.TypeFor[outbox.HeldPause](),
		"PauseResult": reflect.TypeFor[outbox.PauseResult](), "Plan": reflect.TypeFor[dlq.Plan](),
		"PlanDetail": reflect.TypeFor[dlq.PlanDetail](), "Publisher": reflect.TypeFor[dispatch.Peer](),
		"Setting": reflect.TypeFor[Setting](), "Stats": reflect.TypeFor[stats.Report](),
		"Why": reflect.TypeFor[why.Result](),
	}
}

// merged is a schema with what another adds to it, at any depth.
func merged(schema map[string]any, with any) map[string]any {
	more, _ := with.(map[string]any)
	for key, value := range more {
		if inner, both := schema[key].(map[string]any); both {
			value = merged(inner, value)
		}
		schema[key] = value
	}
	return schema
}

// schemaOf is the schema of what encoding/json prints of a type.
func schemaOf(t reflect.Type, nullable bool) map[string]any {
	s := map[string]any{}
	kind := ""
	switch {
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), true)
	case t == reflect.TypeFor[time.Time](), t.Kind() == reflect.String, t.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()):
		kind = "string"
	case t == reflect.TypeFor[wire.Policy]():
		kind, s["additionalProperties"] = "object", true
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		kind, s["additionalProperties"], nullable = "object", true, true
	case t.Kind() == reflect.Struct:
		kind = "object"
		properties, required := map[string]any{}, []string{}
		addFields(t, properties, &required)
		s["properties"], s["required"] = properties, required
	case t.Kind() == reflect.Map:
		kind, s["additionalProperties"] = "object", schemaOf(t.Elem(), false)
	case t.Kind() == reflect.Slice:
		kind, s["items"] = "array", schemaOf(t.Elem(), false)
	case t.Kind() == reflect.Bool:
		kind = "boolean"
	case t.Kind() == reflect.Float64:
		kind = "number"
	default:
		kind = "integer"
	}
	if s["type"] = kind; nullable {
		s["type"] = []string{kind, "null"}
	}
	return s
}

func addFields(t reflect.Type, properties map[string]any, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			addFields(f.Type, properties, required)
		case f.IsExported() && name != "-":
			properties[name] = schemaOf(f.Type, false)
			if !strings.Contains(options, "omit") {
				*required = append(*required, name)
			}
		}
	}
}
