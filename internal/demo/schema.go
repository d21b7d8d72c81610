package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The bounds of what is made up where a schema sets none.
const (
	deepest     = 6
	mostItems   = 3
	usualNumber = 1000
)

// sample makes up values that fit a JSON Schema: its types, enums, formats, required members and ranges. What it does not
// understand (patterns, conditions) it leaves to the caller to check.
type sample struct {
	random *rand.Rand
	now    func() time.Time
	root   map[string]any
}

// payload makes up the data of a schema; nil is that of a type which takes anything.
func (s *sample) payload(schema json.RawMessage) (json.RawMessage, error) {
	if schema == nil {
		return json.Marshal(map[string]any{"note": s.words(3), "n": s.random.IntN(usualNumber)})
	}
	if err := json.Unmarshal(schema, &s.root); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	return json.Marshal(s.value(s.root, 0))
}

func (s *sample) value(schema any, depth int) any {
	rules, ok := schema.(map[string]any)
	if !ok || depth > deepest {
		return s.words(1)
	}
	rules = s.resolved(rules, depth)
	if fixed, ok := rules["const"]; ok {
		return fixed
	}
	if choices, ok := rules["enum"].([]any); ok && len(choices) > 0 {
		return choices[s.random.IntN(len(choices))]
	}
	switch s.kind(rules) {
	case "object":
		return s.object(rules, depth)
	case "array":
		return s.array(rules, depth)
	case "string":
		return s.text(rules)
	case "integer":
		return int64(s.number(rules, 1))
	case "number":
		return s.number(rules, 0.01)
	case "boolean":
		return s.random.IntN(2) == 0
	case "null":
		return nil
	}
	return s.text(rules)
}

// resolved follows references inside the schema and takes in what allOf, anyOf and oneOf ask for besides.
func (s *sample) resolved(rules map[string]any, depth int) map[string]any {
	for range deepest {
		ref, ok := rules["$ref"].(string)
		if !ok {
			break
		}
		rules = maps.Clone(rules)
		delete(rules, "$ref")
		rules = merged(s.at(ref), rules)
	}
	if all, ok := rules["allOf"].([]any); ok {
		for _, one := range all {
			rules = s.with(rules, one, depth)
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if some, ok := rules[keyword].([]any); ok && len(some) > 0 {
			rules = s.with(rules, some[s.random.IntN(len(some))], depth)
		}
	}
	return rules
}

func (s *sample) with(rules map[string]any, other any, depth int) map[string]any {
	more, ok := other.(map[string]any)
	if !ok || depth > deepest {
		return rules
	}
	return merged(s.resolved(more, depth+1), rules)
}

// merged is a with what b says; properties and required members are those of both.
func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	for keyword, value := range b {
		switch keyword {
		case "properties":
			properties, _ := value.(map[string]any)
			own, _ := out[keyword].(map[string]any)
			out[keyword] = merged(own, properties)
		case "required":
			own, _ := out[keyword].([]any)
			more, _ := value.([]any)
			out[keyword] = slices.Concat(own, more)
		default:
			out[keyword] = value
		}
	}
	return out
}

// at is the part of the schema that a reference names, in the schema itself or in a file that was put into its
// definitions.
func (s *sample) at(ref string) map[string]any {
	file, pointer, _ := strings.Cut(ref, "#")
	file = strings.TrimLeft(file, "./")
	if part := under(s.root, pointer); file == "" && part != nil {
		return part
	}
	for _, keyword := range []string{"$defs", "definitions"} {
		files, _ := s.root[keyword].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			document, _ := files[name].(map[string]any)
			if part := under(document, pointer); strings.HasSuffix(name, file) && part != nil {
				return part
			}
		}
	}
	return nil
}

// under follows a JSON pointer.
func under(part map[string]any, pointer string) map[string]any {
	for _, step := range strings.Split(pointer, "/") {
		if step != "" {
			part, _ = part[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)].(map[string]any)
		}
	}
	return part
}

// kind is one of the types that a schema allows, null only where there is no other.
func (s *sample) kind(rules map[string]any) string {
	switch kinds := rules["type"].(type) {
	case string:
		return kinds
	case []any:
		var names []string
		for _, kind := range kinds {
			if name, ok := kind.(string); ok && name != "null" {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			return names[s.random.IntN(len(names))]
		}
		return "null"
	}
	for _, hint := range [][2]string{{"properties", "object"}, {"required", "object"}, {"items", "array"}, {"minimum", "integer"}, {"maximum", "integer"}} {
		if _, ok := rules[hint[0]]; ok {
			return hint[1]
		}
	}
	return ""
}

// object has every required member and most of the others.
func (s *sample) object(rules map[string]any, depth int) map[string]any {
	object := map[string]any{}
	properties, _ := rules["properties"].(map[string]any)
	required, _ := rules["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || depth < deepest/2 && s.random.IntN(4) > 0 {
			object[name] = s.value(properties[name], depth+1)
		}
	}
	for _, name := range required {
		if text, ok := name.(string); ok && object[text] == nil && properties[text] == nil {
			object[text] = s.words(1)
		}
	}
	if other, ok := rules["additionalProperties"].(map[string]any); ok && len(properties) == 0 {
		object[s.words(1)] = s.value(other, depth+1)
	}
	return object
}

func (s *sample) array(rules map[string]any, depth int) []any {
	least, most := int(figure(rules, "minItems", 0)), int(figure(rules, "maxItems", math.MaxInt32))
	array := []any{}
	fixed, _ := rules["prefixItems"].([]any)
	for _, item := range fixed {
		array = append(array, s.value(item, depth+1))
	}
	more := len(fixed) == 0 || rules["items"] != nil && rules["items"] != false
	for n := max(least, min(most, 1+s.random.IntN(mostItems))); more && len(array) < n; {
		array = append(array, s.value(rules["items"], depth+1))
	}
	return array
}

// number is one in the range, and a multiple where one is asked for.
func (s *sample) number(rules map[string]any, step float64) float64 {
	step = figure(rules, "multipleOf", step)
	low := max(figure(rules, "minimum", math.Inf(-1)), figure(rules, "exclusiveMinimum", math.Inf(-1))+step)
	high := min(figure(rules, "maximum", math.Inf(1)), figure(rules, "exclusiveMaximum", math.Inf(1))-step)
	switch {
	case math.IsInf(low, 0) && math.IsInf(high, 0):
		low, high = 0, usualNumber
	case math.IsInf(low, 0):
		low = high - usualNumber
	case math.IsInf(high, 0):
		high = low + usualNumber
	}
	first, last := math.Ceil(low/step), math.Floor(high/step)
	if first >= last {
		return first * step
	}
	return math.Round((first+float64(s.random.Int64N(int64(last-first)+1)))*step*1e6) / 1e6
}

func figure(rules map[string]any, keyword string, without float64) float64 {
	if n, ok := rules[keyword].(float64); ok {
		return n
	}
	return without
}

func (s *sample) text(rules map[string]any) string {
	format, _ := rules["format"].(string)
	switch format {
	case "date-time":
		return s.now().UTC().Add(-time.Duration(s.random.IntN(3600)) * time.Second).Format(time.RFC3339)
	case "date":
		return s.now().UTC().Format(time.DateOnly)
	case "time":
		return s.now().UTC().Format("15:04:05Z")
	case "duration":
		return fmt.Sprintf("PT%dM", 1+s.random.IntN(59))
	case "uuid":
		return newID(s.random).String()
	case "email", "idn-email":
		return s.words(1) + "@example.com"
	case "uri", "uri-reference", "iri":
		return "https://example.com/" + s.words(1)
	case "hostname", "idn-hostname":
		return s.words(1) + ".example.com"
	case "ipv4":
		return fmt.Sprintf("192.0.2.%d", 1+s.random.IntN(254))
	case "ipv6":
		return fmt.Sprintf("2001:db8::%x", 1+s.random.IntN(9999))
	}
	text := s.words(1 + s.random.IntN(3))
	for least := int(figure(rules, "minLength", 0)); len(text) < least; {
		text += " " + s.words(3)
	}
	if most := figure(rules, "maxLength", math.MaxInt32); float64(len(text)) > most {
		text = text[:int(most)]
	}
	return text
}

func (s *sample) words(n int) string {
	known := strings.Fields("amber basil cedar delta ember fjord grove harbor iris juniper koala lumen maple nectar onyx pearl quartz river saffron tulip umber velvet willow zephyr")
	words := make([]string, n)
	for i := range words {
		words[i] = known[s.random.IntN(len(known))]
	}
	return strings.Join(words, " ")
}
