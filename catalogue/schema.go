package catalogue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// Schema is what data must be: Object, Any, or the text of a JSON Schema (2020-12 unless it names
// another draft).
//
// Formats are checked. A date-time is a timestamp as the envelope's, and not the zero time, which
// is what a program writes that forgot to set it; int64 is a whole number that is written as one
// and fits.
type Schema string

// Schemas for payloads without one. Object is the default.
const (
	// Object takes any JSON object.
	Object Schema = "object"
	// Any takes any JSON but null.
	Any Schema = "any"
)

// anyObject is Object as a JSON Schema.
const anyObject = `{"type":"object"}`

func decode(text string) (any, error) { return jsonschema.UnmarshalJSON(strings.NewReader(text)) }

// The addresses under which a schema's parts know each other. A schema refers to the files of the
// catalogue's folder by their path; what comes from a database or from Go has no folder.
const (
	folderURL = "catalogue:///"
	selfURL   = folderURL + ".schema"
	strictURL = folderURL + ".strict"
)

// compile returns a schema's checker and the schema as one text that needs no files.
func compile(schema Schema, file string, folder fs.FS) (*checker, Schema, []string, error) {
	switch schema {
	case "", Object, anyObject:
		return &checker{object: true}, Object, nil, nil
	case Any:
		return &checker{}, Any, nil, nil
	}
	document, err := decode(string(schema))
	if err != nil {
		return nil, schema, nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	loader := folderLoader{folder, map[string]any{}}
	address := folderURL + cmp.Or(file, ".inline")
	if _, err := compileAt(address, document, loader); err != nil {
		return nil, schema, nil, err
	}
	warned := unknownKeywords(document, "", keywords())
	for _, url := range slices.Sorted(maps.Keys(loader.loaded)) {
		warned = append(warned, unknownKeywords(loader.loaded[url], "", keywords())...)
	}
	if document, err = bundle(document, address, loader.loaded); err != nil {
		return nil, schema, nil, err
	}
	text, err := canonical(document)
	if err != nil {
		return nil, schema, nil, err
	}
	c := &checker{}
	if c.plain, err = compileAt(selfURL, document, folderLoader{}); err != nil {
		return nil, schema, nil, err
	}
	if namesFields(document) {
		wrapper := map[string]any{"$ref": selfURL, "unevaluatedProperties": false}
		c.strict, err = compileAt(strictURL, wrapper,
			folderLoader{loaded: map[string]any{selfURL: document}})
	}
	return c, Schema(text), warned, err
}

// namesFields reports whether a schema says anything of single members.
func namesFields(document any) bool {
	object, ok := document.(map[string]any)
	return ok && slices.ContainsFunc([]string{"properties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"}, func(keyword string) bool {
		_, has := object[keyword]
		return has
	})
}

func compileAt(url string, document any, loader folderLoader) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(loader)
	c.AssertFormat()
	for name, validate := range map[string]func(string) error{"date-time": checkTime, "date": checkDate} {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error {
			if text, ok := v.(string); ok {
				return validate(text)
			}
			return nil
		}})
	}
	c.RegisterFormat(&jsonschema.Format{Name: "int64", Validate: func(v any) error {
		if n, ok := v.(json.Number); ok {
			_, err := strconv.ParseInt(n.String(), 10, 64)
			return err
		}
		return nil
	}})
	if err := c.AddResource(url, document); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, schemaError(err)
	}
	return compiled, nil
}

// schemaError explains in our words why a schema does not compile.
func schemaError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var found *jsonschema.ValidationError
	var load *jsonschema.LoadURLError
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, &found):
		return fmt.Errorf("is not a valid JSON Schema: %s", problemsOf(found, nil, "schema"))
	case errors.As(err, &load):
		return fmt.Errorf("its schema refers to %w", load.Err)
	}
	return fmt.Errorf("is not a valid JSON Schema: %s", strings.ReplaceAll(err.Error(), folderURL, ""))
}

func checkTime(text string) error {
	at, err := wire.ParseTime(text)
	if err == nil && at.IsZero() {
		return errors.New("is the zero time")
	}
	return err
}

func checkDate(text string) error {
	_, err := time.Parse(time.DateOnly, text)
	return err
}

// errOutside is why a reference is not followed.
var errOutside = errors.New("which is no file in the catalogue's folder or below it")

// folderLoader opens what a schema refers to. It opens nothing outside the folder, and nothing at
// all without one.
type folderLoader struct {
	folder fs.FS
	loaded map[string]any
}

// Load implements jsonschema.URLLoader.
func (l folderLoader) Load(url string) (any, error) {
	if document := l.loaded[url]; document != nil {
		return document, nil
	}
	name, ok := strings.CutPrefix(url, folderURL)
	if !ok || l.folder == nil || !fs.ValidPath(name) {
		return nil, fmt.Errorf("%q, %w", url, errOutside)
	}
	document, err := readSchema(l.folder, name)
	if err != nil {
		return nil, err
	}
	l.loaded[url] = document
	return document, nil
}

// readSchema reads a schema from a file, as YAML where its name says so.
func readSchema(folder fs.FS, name string) (any, error) {
	text, err := fs.ReadFile(folder, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, fmt.Errorf("%q, %w", name, errOutside)
	}
	if err != nil {
		// Of its text only the cause is news: a link that leads elsewhere, say.
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err
		}
		return nil, fmt.Errorf("%q, which cannot be read in the catalogue's folder: %w", name, err)
	}
	if extension := path.Ext(name); extension == ".yaml" || extension == ".yml" {
		if text, err = yamlToJSON(text); err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%q, which is not JSON: %w", name, err)
	}
	return document, nil
}

// bundle puts the files that a schema refers to into the schema itself, so that it can be stored
// and sent alone. The references stay as they are: each file keeps the address by which it was
// found.
func bundle(document any, url string, loaded map[string]any) (any, error) {
	root, ok := document.(map[string]any)
	if !ok || len(loaded) == 0 {
		return document, nil
	}
	root = maps.Clone(root)
	if _, has := root["$id"]; !has {
		root["$id"] = url
	}
	keyword := "$defs"
	if draft, _ := root["$schema"].(string); strings.Contains(draft, "/draft-0") {
		keyword = "definitions"
	}
	definitions := map[string]any{}
	if own, ok := root[keyword].(map[string]any); ok {
		maps.Copy(definitions, own)
	}
	for at, part := range loaded {
		object, ok := part.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is not a JSON object", strings.TrimPrefix(at, folderURL))
		}
		if own, has := object["$id"]; has && own != at {
			return nil, fmt.Errorf("%s has an $id; remove it: the files of a catalogue are referred to by their path", strings.TrimPrefix(at, folderURL))
		}
		object = maps.Clone(object)
		object["$id"] = at
		definitions[at] = object
	}
	root[keyword] = definitions
	return root, nil
}

// canonical writes JSON in one way: members sorted, no spaces.
func canonical(document any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return "", err
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

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
func unknownKeywords(value any, at string, known []string) (warnings []string) {
	object, _ := value.(map[string]any)
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		below := at + "/" + keyword
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			members, _ := object[keyword].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(members)) {
				warnings = append(warnings, unknownKeywords(members[name], below+"/"+name, known)...)
			}
		case "allOf", "anyOf", "oneOf", "prefixItems", "items", "not", "if", "then", "else", "additionalItems", "contains",
			"additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema":
			elements, _ := object[keyword].([]any)
			for i, element := range elements {
				at := fmt.Sprintf("%s/%d", below, i)
				warnings = append(warnings, unknownKeywords(element, at, known)...)
			}
			warnings = append(warnings, unknownKeywords(object[keyword], below, known)...)
		default:
			if !slices.Contains(known, keyword) && !strings.HasPrefix(keyword, "x-") {
				warnings = append(warnings, fmt.Sprintf("the schema's %s is no keyword of JSON Schema and checks nothing%s",
					cut(strings.TrimPrefix(below, "/")), suggest(keyword, known)))
			}
		}
	}
	return warnings
}

// maxDigits is how many digits a number may have, written out, where a schema looks at it. A double
// has at most some 800. Rules about numbers calculate exactly, and what that takes grows faster
// than the number: a message full of numbers of 100,000 digits would keep an emitter or a publisher
// busy for a minute.
const maxDigits = 1024

// longNumber finds a number of too many digits and returns where it is, below the value.
func longNumber(value any) (path string, found bool) {
	switch v := value.(type) {
	case json.Number:
		return "", digits(string(v)) > maxDigits
	case []any:
		for i, element := range v {
			if below, found := longNumber(element); found {
				return "[" + strconv.Itoa(i) + "]" + below, true
			}
		}
	case map[string]any:
		for name, member := range v {
			if below, ok := longNumber(member); ok {
				if at := "." + cut(name) + below; !found || at < path {
					path, found = at, true
				}
			}
		}
	}
	return path, found
}

// digits is at least as many as a number has when its exponent is written out.
func digits(number string) int {
	e := strings.IndexAny(number, "eE")
	if e < 0 {
		return len(number)
	}
	exponent, err := strconv.Atoi(number[e+1:])
	if err != nil || exponent > maxDigits || exponent < -maxDigits {
		return maxDigits + 1
	}
	return len(number) + max(exponent, -exponent)
}
