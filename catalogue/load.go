package catalogue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// source is where the documents of a YAML file stand. A nil one is that of documents that were made
// in Go.
type source struct {
	file      string
	directory fs.FS
	documents []lines
}

func (s *source) document(i int) lines {
	if s == nil || i >= len(s.documents) {
		return lines{}
	}
	return s.documents[i]
}

func (s *source) folder() fs.FS {
	if s == nil {
		return nil
	}
	return s.directory
}

// lines are those of the keys of a mapping.
type lines struct {
	file string
	line int
	keys map[string]int
	// below are the lines of the topics' or the types' own keys.
	below map[string]lines
}

// of returns the line of a key, or that of the mapping where the key is missing.
func (l lines) of(key string) place {
	if line, ok := l.keys[key]; ok {
		return place{l.file, line}
	}
	return place{l.file, l.line}
}

func (l lines) topic(name string) place  { return l.below["topics"].of(name) }
func (l lines) types(name string) lines  { return l.below["types"].below[name] }
func (l lines) in(node *yaml.Node) place { return place{l.file, node.Line} }
func (l lines) with(node *yaml.Node) lines {
	return lines{file: l.file, line: node.Line, keys: map[string]int{}, below: map[string]lines{}}
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
	s := &source{file: file, directory: directory}
	bad := &Problems{}
	documents := s.read(text, bad)
	if len(bad.All) > 0 && len(documents) == 0 {
		return nil, bad
	}
	c := build(documents, s, bad)
	slices.SortStableFunc(bad.All, func(a, b Problem) int { return a.Line - b.Line })
	return c, bad.orNil()
}

// read turns YAML into documents.
func (s *source) read(text []byte, bad *Problems) []Document {
	var documents []Document
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			bad.add(place{s.file, 0}, "%s", notYAML(err))
			return nil
		}
		root := lines{file: s.file}
		r := reader{at: root.with(node.Content[0]), bad: bad, folder: s.directory}
		documents = append(documents, r.document(node.Content[0]))
		s.documents = append(s.documents, r.at)
	}
	if len(documents) == 0 {
		bad.add(place{s.file, 0}, "holds no catalogue")
	}
	return documents
}

// reader reads one document.
type reader struct {
	at     lines
	bad    *Problems
	folder fs.FS
}

// mapping calls read for every key of a mapping, and complains about what is none, about keys that
// are there twice and about keys that are not known.
func (r *reader) mapping(node *yaml.Node, what string, at lines, known []string,
	read func(key string, value *yaml.Node)) {
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		r.bad.add(at.in(node), "%s must be a mapping", what)
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolved(node.Content[i+1])
		_, twice := at.keys[key.Value]
		switch {
		case twice:
			r.bad.add(at.in(key), "%s has %q twice", what, cut(key.Value))
		case known != nil && !slices.Contains(known, key.Value):
			r.bad.add(at.in(key), "%s has the unknown key %q%s", what, cut(key.Value),
				suggest(key.Value, known))
		default:
			at.keys[key.Value] = key.Line
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

func documentKeys() []string {
	return []string{"outbox", "name", "namespace", "topics", "defaults", "types"}
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
	r.mapping(node, "the catalogue", r.at, documentKeys(), func(key string, value *yaml.Node) {
		switch key {
		case "outbox":
			if value.Value != "1" {
				r.bad.add(r.at.in(value), "outbox: %s is not a version this program reads; it reads 1",
					cut(value.Value))
			}
		case "name":
			d.Name = r.text("name", value)
		case "namespace":
			d.Namespace = r.text("namespace", value)
		case "topics":
			below := r.at.with(value)
			r.at.below["topics"] = below
			r.mapping(value, "topics", below, nil, func(logical string, physical *yaml.Node) {
				d.Topics[logical] = r.text("topic "+logical, physical)
			})
		case "types":
			types = value
		case "defaults":
			defaults = value
		}
	})
	if _, ok := r.at.keys["outbox"]; !ok {
		r.bad.add(r.at.in(node), "outbox: 1 is missing at the top; is this a catalogue?")
	}
	var general Type
	if defaults != nil {
		general = r.readType(defaults, "defaults", Type{}, r.at.with(defaults), defaultKeys())
	}
	if types != nil {
		below := r.at.with(types)
		r.at.below["types"] = below
		r.mapping(types, "types", below, nil, func(name string, value *yaml.Node) {
			own := r.at.with(value)
			below.below[name] = own
			t := r.readType(value, "type "+cut(name), general, own, typeKeys())
			t.Name = name
			d.Types = append(d.Types, t)
		})
	}
	return d
}

// readType reads a type, or the defaults, over what holds where it says nothing.
func (r *reader) readType(node *yaml.Node, what string, t Type, at lines, known []string) Type {
	texts := map[string]*string{
		"topic": &t.Topic, "aggregate": &t.Aggregate, "envelope": &t.Envelope, "extra_fields": &t.ExtraFields, "check": &t.Check,
		"empty": &t.Empty, "envelope_id": &t.EnvelopeID, "order": &t.Order, "description": &t.Description,
	}
	r.mapping(node, what, at, known, func(key string, value *yaml.Node) {
		switch key {
		case "schema":
			r.schema(what, value, &t)
		case "was":
			if value.Kind != yaml.SequenceNode {
				r.bad.add(at.in(value), "%s: was must be a list of names", what)
			}
			for _, name := range value.Content {
				t.Was = append(t.Was, r.text(what+": was", resolved(name)))
			}
		case "max_attempts", "backoff", "expires_after", "rate":
			r.policy(what, key, value, at, &t.Policy)
		case "cloudevents":
			below := at.with(value)
			r.mapping(value, what+": cloudevents", below, []string{"source"}, func(_ string, value *yaml.Node) {
				t.CloudEventsSource = r.text(what+": source", value)
			})
		default:
			*texts[key] = r.text(what+": "+key, value)
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
			r.bad.add(r.at.in(node), "%s: its schema is %s", what, err)
			return
		}
		text, err := canonical(document)
		if err != nil {
			r.bad.add(r.at.in(node), "%s: schema %s: %s", what, node.Value, err)
		}
		t.Schema, t.file = Schema(text), path.Clean(node.Value)
		return
	}
	text, err := nodeToJSON(node)
	if err != nil {
		r.bad.add(r.at.in(node), "%s: schema: %s", what, err)
		return
	}
	t.Schema = Schema(text)
}

func (r *reader) text(what string, node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode || node.ShortTag() == "!!null" {
		r.bad.add(r.at.in(node), "%s must be a text", what)
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

func (p Problem) String() string { return place{p.File, p.Line}.String() + p.Text }

// Problems are all things that are wrong with a catalogue.
type Problems struct{ All []Problem }

func (p *Problems) Error() string {
	texts := make([]string, len(p.All))
	for i, one := range p.All {
		texts[i] = one.String()
	}
	return strings.Join(texts, "\n")
}

func (p *Problems) add(at place, format string, args ...any) {
	p.All = append(p.All, Problem{at.file, at.line, fmt.Sprintf(format, args...)})
}

func (p *Problems) orNil() error {
	if len(p.All) == 0 {
		return nil
	}
	return p
}

// place is a line of a file.
type place struct {
	file string
	line int
}

func (p place) String() string {
	switch {
	case p.file == "":
		return ""
	case p.line == 0:
		return p.file + ": "
	}
	return fmt.Sprintf("%s:%d: ", p.file, p.line)
}
