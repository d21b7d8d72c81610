package catalogue

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lines are those of a mapping's keys; without a node, of a document that was made in Go.
type lines struct {
	file string
	node *yaml.Node
}

// find returns a key and its value; nil where the key is missing.
func (l lines) find(name string) (key, value *yaml.Node) {
	if l.node == nil || l.node.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(l.node.Content); i += 2 {
		if l.node.Content[i].Value == name {
			return l.node.Content[i], resolved(l.node.Content[i+1])
		}
	}
	return nil, nil
}

// of returns the line of a key, or that of the mapping where the key is missing.
func (l lines) of(key string) Problem {
	at, _ := l.find(key)
	if at = cmp.Or(at, l.node); at == nil {
		return Problem{}
	}
	return Problem{File: l.file, Line: at.Line}
}

// below returns the lines of the mapping that is the value of a key.
func (l lines) below(key string) lines {
	_, value := l.find(key)
	return lines{l.file, value}
}

// Load reads a catalogue from a YAML file. Its schemas may be files in the same folder or below it;
// nothing else is opened. What is wrong with it is a *Problems with all there is.
func Load(fsys fs.FS, file string) (*Catalogue, error) {
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	directory, err := fs.Sub(fsys, path.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	r := reader{file: file, bad: &Problems{}, folder: directory}
	documents, places := r.read(text)
	if len(r.bad.All) > 0 && len(documents) == 0 {
		return nil, r.bad
	}
	c := build(documents, places, directory, r.bad)
	slices.SortStableFunc(r.bad.All, func(a, b Problem) int { return a.Line - b.Line })
	return c, r.bad.orNil()
}

// reader reads the documents of a file.
type reader struct {
	file   string
	bad    *Problems
	folder fs.FS
}

// read turns YAML into documents, each with its lines.
func (r *reader) read(text []byte) (documents []Document, places []lines) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.bad.add(Problem{File: r.file}, "%s", notYAML(err))
			return nil, nil
		}
		documents = append(documents, r.document(node.Content[0]))
		places = append(places, lines{r.file, node.Content[0]})
	}
	if len(documents) == 0 {
		r.bad.add(Problem{File: r.file}, "holds no catalogue")
	}
	return documents, places
}

func (r *reader) complain(at *yaml.Node, format string, args ...any) {
	r.bad.add(Problem{File: r.file, Line: at.Line}, format, args...)
}

// mapping calls read for every key of a mapping, and complains about what is none, about keys that
// are there twice and about keys that are not known.
func (r *reader) mapping(node *yaml.Node, what string, known []string,
	read func(key string, value *yaml.Node)) {
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		r.complain(node, "%s must be a mapping", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolved(node.Content[i+1])
		switch {
		case seen[key.Value]:
			r.complain(key, "%s has %q twice", what, cut(key.Value))
		case known != nil && !slices.Contains(known, key.Value):
			r.complain(key, "%s has the unknown key %q%s", what, cut(key.Value),
				suggest(key.Value, known))
		default:
			seen[key.Value] = true
			read(key.Value, value)
		}
	}
}

// resolved follows an alias.
func resolved(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

func defaultKeys() []string {
	return []string{"topic", "aggregate", "schema", "envelope", "extra_fields", "check", "empty",
		"envelope_id", "order", "cloudevents", "max_attempts", "backoff", "expires_after", "rate"}
}

func typeKeys() []string { return append(defaultKeys(), "description", "was") }

// document reads the whole of it before its types, because the defaults may come after them.
func (r *reader) document(node *yaml.Node) Document {
	d := Document{Topics: map[string]string{}}
	var types, defaults *yaml.Node
	keys := []string{"outbox", "name", "namespace", "topics", "defaults", "types"}
	r.mapping(node, "the catalogue", keys, func(key string, value *yaml.Node) {
		switch key {
		case "outbox":
			if value.Value != "1" {
				r.complain(value, "outbox: %s is not a version this program reads; it reads 1",
					cut(value.Value))
			}
		case "name":
			d.Name = r.text("name", value)
		case "namespace":
			d.Namespace = r.text("namespace", value)
		case "topics":
			r.mapping(value, "topics", nil, func(logical string, physical *yaml.Node) {
				d.Topics[logical] = r.text("topic "+logical, physical)
			})
		case "types":
			types = value
		case "defaults":
			defaults = value
		}
	})
	if version, _ := (lines{r.file, node}).find("outbox"); version == nil {
		r.complain(node, "outbox: 1 is missing at the top; is this a catalogue?")
	}
	var general Type
	if defaults != nil {
		general = r.readType(defaults, "defaults", Type{}, defaultKeys())
	}
	if types != nil {
		r.mapping(types, "types", nil, func(name string, value *yaml.Node) {
			t := r.readType(value, "type "+cut(name), general, typeKeys())
			t.Name = name
			d.Types = append(d.Types, t)
		})
	}
	return d
}

// readType reads a type, or the defaults, over what holds where it says nothing.
func (r *reader) readType(node *yaml.Node, what string, t Type, known []string) Type {
	r.mapping(node, what, known, func(key string, value *yaml.Node) {
		switch key {
		case "schema":
			r.schema(what, value, &t)
		case "was":
			if value.Kind != yaml.SequenceNode {
				r.complain(value, "%s: was must be a list of names", what)
			}
			for _, name := range value.Content {
				t.Was = append(t.Was, r.text(what+": was", resolved(name)))
			}
		case "max_attempts", "backoff", "expires_after", "rate":
			r.policy(what, key, value, &t.Policy)
		case "cloudevents":
			r.mapping(value, what+": cloudevents", []string{"source"}, func(_ string, value *yaml.Node) {
				t.CloudEventsSource = r.text(what+": source", value)
			})
		default:
			i := slices.IndexFunc(t.texts(), func(one textKey) bool { return one.key == key })
			*t.texts()[i].text = r.text(what+": "+key, value)
		}
	})
	return t
}

// schema reads object, any, the name of a file, or the schema itself.
func (r *reader) schema(what string, node *yaml.Node, t *Type) {
	t.Schema, t.file = "", ""
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
		if name := Schema(node.Value); name == Object || name == Any {
			t.Schema = name
			return
		}
		document, err := readSchema(r.folder, path.Clean(node.Value))
		if err != nil {
			r.complain(node, "%s: its schema is %s", what, err)
			return
		}
		text, err := canonical(document)
		if err != nil {
			r.complain(node, "%s: schema %s: %s", what, node.Value, err)
		}
		t.Schema, t.file = Schema(text), path.Clean(node.Value)
		return
	}
	text, err := nodeToJSON(node)
	if err != nil {
		r.complain(node, "%s: schema: %s", what, err)
		return
	}
	t.Schema = Schema(text)
}

func (r *reader) text(what string, node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode || node.ShortTag() == "!!null" {
		r.complain(node, "%s must be a text", what)
		return ""
	}
	return node.Value
}

// Problem is one thing that is wrong with a catalogue.
type Problem struct {
	// File and Line say where; Line is 0 where there is none.
	File string
	Line int
	Text string
}

func (p Problem) String() string {
	switch {
	case p.File == "":
		return p.Text
	case p.Line == 0:
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Problems are all things that are wrong with a catalogue.
type Problems struct{ All []Problem }

func (p *Problems) Error() string {
	texts := make([]string, len(p.All))
	for i, one := range p.All {
		texts[i] = one.String()
	}
	return strings.Join(texts, "\n")
}

// add adds a text about a place.
func (p *Problems) add(at Problem, format string, args ...any) {
	at.Text = fmt.Sprintf(format, args...)
	p.All = append(p.All, at)
}

func (p *Problems) orNil() error {
	if len(p.All) == 0 {
		return nil
	}
	return p
}
