package catalogue

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// build completes documents and checks them. Each stands at its lines, its schemas in the folder.
func build(documents []Document, places []lines, folder fs.FS, bad *Problems) *Catalogue {
	c := &Catalogue{types: map[key]*Type{}}
	topics := map[string]string{}
	for i, d := range documents {
		if d.Namespace == "" {
			d.Namespace = AllNamespaces
		}
		at := places[i]
		switch {
		case d.Name == "":
			bad.add(at.of("name"), "name is required: what the catalogue is called, such as your system")
		case !wellFormed(d.Name):
			bad.add(at.of("name"), "name %q must be letters, digits or _.:/-, at most %d bytes",
				cut(d.Name), maxNameBytes)
		case d.Namespace != AllNamespaces &&
			(len(d.Namespace) > maxNamespaceBytes || !typeName.MatchString(d.Namespace)):
			bad.add(at.of("namespace"), "namespace %q must be * or letters, digits and _.:/-, at most %d bytes", cut(d.Namespace), maxNamespaceBytes)
		case c.speaksFor(d.Namespace):
			bad.add(at.of("name"), "two documents speak for namespace %s", d.Namespace)
		}
		if len(d.Types) == 0 {
			bad.add(at.of("types"), "types are missing: a catalogue has at least one")
		}
		checkTopics(d, at, topics, bad)
		d.Types = slices.Clone(d.Types)
		c.documents = append(c.documents, d)
		for j := range d.Types {
			c.addType(d, &d.Types[j], at.below("types").below(d.Types[j].Name), folder, bad)
		}
	}
	return c
}

// checkTopics checks the logical names; what a broker takes as a name is the broker's to say.
func checkTopics(d Document, at lines, all map[string]string, bad *Problems) {
	for _, logical := range slices.Sorted(maps.Keys(d.Topics)) {
		physical, line := d.Topics[logical], at.below("topics").of(logical)
		switch former, ok := all[logical]; {
		case !topicName.MatchString(logical) || len(logical) > maxNameBytes:
			bad.add(line, "topic %q must be lower-case letters, digits, _ or -, starting with a letter",
				cut(logical))
		case physical == "":
			bad.add(line, "topic %s has no name at the broker", logical)
		case ok && former != physical:
			bad.add(line, "topic %s is %s in one document and %s in another", logical, former, physical)
		}
		all[logical] = physical
	}
}

// addType completes, checks and compiles one type.
func (c *Catalogue) addType(d Document, t *Type, at lines, folder fs.FS, bad *Problems) {
	complain := func(key, format string, args ...any) {
		bad.add(at.of(key), "type %s: %s", cut(t.Name), fmt.Sprintf(format, args...))
	}
	for i, name := range append([]string{t.Name}, t.Was...) {
		switch {
		case !wellFormed(name):
			complain("was", "name %q must be letters, digits or _.:/-, at most %d bytes", cut(name),
				maxNameBytes)
		case c.types[key{d.Namespace, name}] != nil && i == 0:
			complain("", "is there twice, or another type was called so")
		case c.types[key{d.Namespace, name}] != nil:
			complain("was", "was %s, which is another type's name", name)
		default:
			c.types[key{d.Namespace, name}] = t
		}
	}
	switch {
	case t.Topic == "":
		complain("topic", "topic is required")
	case d.Topics[t.Topic] == "":
		complain("topic", "topic %q is not among the topics%s", cut(t.Topic),
			suggest(t.Topic, slices.Sorted(maps.Keys(d.Topics))))
	}
	if t.Aggregate == "" {
		complain("aggregate", "aggregate is required (none: events belong to no aggregate)")
	} else if !wellFormed(t.Aggregate) {
		complain("aggregate", "aggregate %q must be letters, digits or _.:/-, at most %d bytes",
			cut(t.Aggregate), maxNameBytes)
	}
	for _, one := range t.texts() {
		if len(one.values) == 0 {
			continue
		}
		*one.text = cmp.Or(*one.text, one.values[0])
		if !slices.Contains(one.values, *one.text) {
			complain(one.key, "%s is %q, must be %s", one.key, cut(*one.text),
				strings.TrimPrefix(strings.Join(one.values, " or "), " or "))
		}
	}
	switch {
	case t.Order == OrderAggregate && t.Aggregate == None:
		complain("order", "order: aggregate needs an aggregate")
	case t.CloudEventsSource != "" && t.Envelope != None:
		complain("cloudevents", "cloudevents needs envelope: none, because a CloudEvent's data is the payload itself")
	case t.EnvelopeID != "" && t.Envelope == None:
		complain("envelope_id", "envelope_id needs the standard envelope")
	}
	checkPolicy(t.Policy, complain)
	compiled, schema, warned, err := compile(t.Schema, t.file, folder)
	if err = cmp.Or(t.problem, err); err != nil {
		complain("schema", "%s", err)
		return
	}
	t.check, t.Schema = ready(compiled), schema
	for _, w := range warned {
		c.warnings = append(c.warnings, at.of("schema").String()+"type "+t.Name+": "+w)
	}
}

// suggest names the value that was most likely meant.
func suggest(given string, values []string) string {
	if meant := Nearest(given, values); meant != "" {
		return " (did you mean " + meant + "?)"
	}
	return ""
}

// cut keeps text from outside from filling a message.
func cut(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
