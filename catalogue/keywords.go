package catalogue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// keywords are those of JSON Schema, drafts 4 to 2020-12. A misspelt one is allowed by the standard
// and checks nothing.
func keywords() []string {
	return strings.Fields(`$schema $id id $ref $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary $comment $defs
		definitions allOf anyOf oneOf not if then else dependentSchemas dependencies prefixItems items additionalItems contains properties
		patternProperties additionalProperties propertyNames unevaluatedItems unevaluatedProperties type const enum multipleOf maximum
		exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems maxContains minContains
		maxProperties minProperties required dependentRequired title description default deprecated readOnly writeOnly examples format
		contentEncoding contentMediaType contentSchema`)
}

// unknownKeywords warns of what a schema says in vain. Names that begin with x- are annotations by
// custom.
func unknownKeywords(document any) []string {
	w := keywordWalk{known: keywords()}
	w.schema(document, "")
	return w.warnings
}

type keywordWalk struct {
	known    []string
	warnings []string
}

func (w *keywordWalk) schema(value any, at string) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		below := at + "/" + keyword
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			members, _ := object[keyword].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(members)) {
				w.schema(members[name], below+"/"+name)
			}
		case "allOf", "anyOf", "oneOf", "prefixItems", "items":
			elements, _ := object[keyword].([]any)
			for i, element := range elements {
				w.schema(element, fmt.Sprintf("%s/%d", below, i))
			}
			w.schema(object[keyword], below)
		case "not", "if", "then", "else", "additionalItems", "contains", "additionalProperties", "propertyNames",
			"unevaluatedItems", "unevaluatedProperties", "contentSchema":
			w.schema(object[keyword], below)
		default:
			if !slices.Contains(w.known, keyword) && !strings.HasPrefix(keyword, "x-") {
				w.warnings = append(w.warnings, fmt.Sprintf("the schema's %s is no keyword of JSON Schema and checks nothing%s",
					cut(strings.TrimPrefix(below, "/")), suggest(keyword, w.known)))
			}
		}
	}
}
