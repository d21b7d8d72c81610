package catalogue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// leaves finds the rules that were broken below the ones that only combine others. Alternatives are
// one rule: what is wrong with each of them says little.
func leaves(e *jsonschema.ValidationError) (all []*jsonschema.ValidationError) {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.PropertyNames, *kind.Contains:
	default:
		for _, cause := range e.Causes {
			all = append(all, leaves(cause)...)
		}
	}
	if len(all) == 0 {
		all = append(all, e)
	}
	return all
}

func problemsOf(e *jsonschema.ValidationError, value any, root string) wire.Problems {
	var all wire.Problems
	for _, leaf := range leaves(e) {
		all = append(all, problemsAt(leaf, value, root)...)
	}
	sortProblems(all)
	return all
}

// problemsAt lists which field breaks which rule. It never shows the value: the library's own texts
// do.
func problemsAt(e *jsonschema.ValidationError, value any, root string) wire.Problems {
	field := fieldPath(e.InstanceLocation, value, root)
	members := func(names []string, problem string) wire.Problems {
		all := make(wire.Problems, len(names))
		for i, name := range names {
			all[i] = wire.FieldProblem{Field: field + "." + cut(name), Problem: problem}
		}
		return all
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return members(k.Missing, "is required")
	case *kind.DependentRequired:
		return members(k.Missing, "is required beside "+cut(k.Prop))
	case *kind.Dependency:
		return members(k.Missing, "is required beside "+cut(k.Prop))
	case *kind.AdditionalProperties:
		return members(k.Properties, notAField)
	}
	return wire.Problems{{Field: field, Problem: rule(e.ErrorKind)}}
}

const notAField = "is not a field of this payload"

// rule reads after a field's name. Of the kinds it uses what the schema says, and not what was
// found.
func rule(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.FalseSchema:
		return notAField
	case *kind.Type:
		return "must be " + oneOfTypes(k.Want) + ", not " + article(k.Got)
	case *kind.Enum:
		return "must be one of " + values(k.Want)
	case *kind.Const:
		return "must be " + values([]any{k.Want})
	case *kind.Format:
		return "must be " + format(k.Want)
	case *kind.Pattern:
		return "must match " + k.Want
	case *kind.MinLength:
		if k.Want == 1 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d elements", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d elements", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members", k.Want)
	case *kind.UniqueItems:
		return "must not have the same element twice"
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.AnyOf, *kind.OneOf:
		return "must be exactly one of the forms that the schema allows"
	case *kind.Not:
		return "has a form that the schema excludes"
	case *kind.PropertyNames:
		return "has a member whose name the schema does not allow"
	}
	return "breaks the schema's rule " + strings.Join(k.KeywordPath(), "/")
}

func format(name string) string {
	switch name {
	case "date-time":
		return wire.ErrNotTimestamp.Error()[len("must be "):] + ", and not the zero time"
	case "date":
		return "a date as YYYY-MM-DD"
	case "int64":
		return "an integer of at most 64 bits"
	case "uuid":
		return "a uuid"
	}
	return "in the format " + name
}

func number(n *big.Rat) string {
	text := n.FloatString(9)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

func oneOfTypes(types []string) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = article(t)
	}
	return strings.Join(names, " or ")
}

func article(jsonType string) string {
	switch jsonType {
	case "null":
		return "null"
	case "object", "array", "integer":
		return "an " + jsonType
	}
	return "a " + jsonType
}

// values prints what the schema allows.
func values(all []any) string {
	texts := make([]string, len(all))
	for i, v := range all {
		if s, ok := v.(string); ok {
			texts[i] = cut(s)
		} else if text, err := json.Marshal(v); err == nil {
			texts[i] = cut(string(text))
		}
	}
	return strings.Join(texts, ", ")
}

// fieldPath writes a location as data.items[2].price. The value tells an index from a member called
// 2.
func fieldPath(location []string, value any, root string) string {
	text := root
	for _, part := range location {
		if list, ok := value.([]any); ok {
			text += "[" + part + "]"
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(list) {
				value = list[i]
			}
			continue
		}
		text += "." + cut(part)
		object, _ := value.(map[string]any)
		value = object[part]
	}
	return text
}

func sortProblems(all wire.Problems) {
	slices.SortFunc(all, func(a, b wire.FieldProblem) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Problem, b.Problem))
	})
}
