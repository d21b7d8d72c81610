package catalogue_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
)

const doorito = `outbox: 1
name: doorito
topics: {orders: doorito-orders, files: doorito-files}
defaults: {envelope: standard, extra_fields: warn, check: publish}
types:
  order.ready:
    topic: orders
    aggregate: order
    schema: schemas/order.ready.json
    order: none
  file.stored: {topic: files, aggregate: UploadFile, schema: any, was: [upload.stored]}
---
outbox: 1
name: mini-chat
namespace: mini-chat
topics: {usage: usage}
defaults: {envelope: none, aggregate: none, schema: any}
types: {usage.turn_finalized: {topic: usage, cloudevents: {source: //chat}}}
`

const orderReady = `{"type": "object", "properties": {"orderId": {"$ref": "common.json#/$defs/id"}, "lines": {"type": "array", "items": {"type": "object",
 "properties": {"n": {"type": "integer", "minimum": 1}}}}}, "required": ["orderId"]}`

func folder(more map[string]string) fstest.MapFS {
	files := fstest.MapFS{
		"conf/doorito.yaml":               {Data: []byte(doorito)},
		"conf/schemas/order.ready.json":   {Data: []byte(orderReady)},
		"conf/schemas/common.json":        {Data: []byte(`{"$defs": {"id": {"type": "string", "minLength": 1}}}`)},
		"outside.json":                    {Data: []byte(`{}`)},
		"conf/schemas/order.outside.json": {Data: []byte(`{"$ref": "../../outside.json"}`)},
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func load(t *testing.T, files fstest.MapFS) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Load(files, "conf/doorito.yaml")
	require.NoError(t, err)
	return c
}

func TestLoadReadsWhatTheFileSays(t *testing.T) {
	t.Parallel()
	c := load(t, folder(nil))
	require.Equal(t, map[string]string{"orders": "doorito-orders", "files": "doorito-files", "usage": "usage"}, c.Topics())
	require.Empty(t, c.Warnings())

	ready, ok := c.Find("default", "order.ready")
	require.True(t, ok)
	require.Equal(t, []string{"orders", "order", catalogue.Standard, catalogue.Warn, catalogue.CheckPublish, catalogue.None},
		[]string{ready.Topic, ready.Aggregate, ready.Envelope, ready.ExtraFields, ready.Check, ready.Order})
	former, ok := c.Find("anything", "upload.stored")
	require.True(t, ok)
	require.Equal(t, "file.stored", former.Name)

	usage, ok := c.Find("mini-chat", "usage.turn_finalized")
	require.True(t, ok)
	require.Equal(t, []string{catalogue.None, catalogue.None, "//chat"}, []string{usage.Envelope, usage.Aggregate, usage.CloudEventsSource})
	_, ok = c.Find("mini-chat", "order.ready")
	require.True(t, ok, "what its own document does not name is known to all")
	_, ok = c.Find("default", "usage.turn_finalized")
	require.False(t, ok)
}

// What is wrong with a file is said at once, and where.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	const head = "outbox: 1\nname: n\ntopics: {a: topic-a}\n"
	for name, test := range map[string]struct{ text, want string }{
		"a typo in a key": {head + "types:\n  x: {topic: a, agregate: o}\n",
			"conf/doorito.yaml:5: type x has the unknown key \"agregate\" (did you mean aggregate?)\n" +
				"conf/doorito.yaml:5: type x: aggregate is required (none: events belong to no aggregate)"},
		"several at once": {"outbox: 2\nname: n\ntopics: {a: topic-a, B: c}\ntypes:\n  x: {topic: b, aggregate: o, check: never}\n  y!: {topic: a, aggregate: o}\n",
			"conf/doorito.yaml:1: outbox: 2 is not a version this program reads; it reads 1\n" +
				"conf/doorito.yaml:3: topic \"B\" must be lower-case letters, digits, _ or -, starting with a letter\n" +
				"conf/doorito.yaml:5: type x: topic \"b\" is not among the topics (did you mean B?)\n" +
				"conf/doorito.yaml:5: type x: check is \"never\", must be publish or emit\n" +
				"conf/doorito.yaml:6: type y!: name \"y!\" must be letters, digits or _.:/-, at most 255 bytes"},
		"a key twice": {head + "types:\n  x: {topic: a, aggregate: o}\n  x: {topic: a, aggregate: o}\n",
			`conf/doorito.yaml:6: types has "x" twice`},
		"a schema that leaves the folder": {head + "types:\n  x: {topic: a, aggregate: o, schema: schemas/order.outside.json}\n",
			`conf/doorito.yaml:5: type x: its schema refers to "outside.json", which is no file in the catalogue's folder or below it`},
		"a schema file outside": {head + "types:\n  x: {topic: a, aggregate: o, schema: ../outside.json}\n",
			`conf/doorito.yaml:5: type x: its schema is "../outside.json", which is no file in the catalogue's folder or below it`},
		"a schema on the network": {head + "types:\n  x: {topic: a, aggregate: o, schema: {$ref: 'https://example.com/x.json'}}\n",
			`conf/doorito.yaml:5: type x: its schema refers to "https://example.com/x.json", which is no file in the catalogue's folder or below it`},
		"a schema of this machine": {head + "types:\n  x: {topic: a, aggregate: o, schema: {$ref: 'file:///etc/passwd'}}\n",
			`conf/doorito.yaml:5: type x: its schema refers to "file:///etc/passwd", which is no file in the catalogue's folder or below it`},
		"a schema that is none": {head + "types:\n  x: {topic: a, aggregate: o, schema: {type: strin}}\n",
			`conf/doorito.yaml:5: type x: is not a valid JSON Schema: schema.type must be exactly one of the forms that the schema allows`},
		"two documents for one namespace": {head + "types: {x: {topic: a, aggregate: o}}\n---\n" + head + "types: {y: {topic: a, aggregate: o}}\n",
			"conf/doorito.yaml:7: two documents speak for namespace *"},
		"a former name that is taken": {head + "types:\n  x: {topic: a, aggregate: o}\n  y: {topic: a, aggregate: o, was: [x]}\n",
			"conf/doorito.yaml:6: type y: was x, which is another type's name"},
		"CloudEvents in an envelope": {head + "types: {x: {topic: a, aggregate: o, cloudevents: {source: s}}}\n",
			"conf/doorito.yaml:4: type x: cloudevents needs envelope: none, because a CloudEvent's data is the payload itself"},
		"no catalogue":  {"", "conf/doorito.yaml: holds no catalogue"},
		"another file":  {"services: {}\n", "conf/doorito.yaml:1: the catalogue has the unknown key \"services\"\nconf/doorito.yaml:1: outbox: 1 is missing at the top; is this a catalogue?\nconf/doorito.yaml:1: name is required: what the catalogue is called, such as your system\nconf/doorito.yaml:1: types are missing: a catalogue has at least one"},
		"no YAML":       {"{", "conf/doorito.yaml: is not YAML: check the indentation, brackets and quotes near line 1"},
		"not a mapping": {"- outbox\n", "conf/doorito.yaml:1: the catalogue must be a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := catalogue.Load(folder(map[string]string{"conf/doorito.yaml": test.text}), "conf/doorito.yaml")
			var problems *catalogue.Problems
			require.ErrorAs(t, err, &problems)
			require.Contains(t, err.Error(), test.want)
		})
	}
}

// A misspelt keyword checks nothing, which the standard allows and no author means.
func TestLoadWarnsOfUnknownKeywords(t *testing.T) {
	t.Parallel()
	c := load(t, folder(map[string]string{"conf/doorito.yaml": "outbox: 1\nname: n\ntopics: {a: topic-a}\ntypes:\n  x:\n    topic: a\n    aggregate: o\n" +
		"    schema: {type: object, propertys: {}, properties: {y: {minimun: 1, x-owner: us}}}\n"}))
	require.Equal(t, []string{
		"conf/doorito.yaml:8: type x: the schema's properties/y/minimun is no keyword of JSON Schema and checks nothing (did you mean minimum?)",
		"conf/doorito.yaml:8: type x: the schema's propertys is no keyword of JSON Schema and checks nothing (did you mean properties?)",
	}, c.Warnings())
}

// A catalogue that was written out and read again says the same, its referenced files included.
func TestYAMLSaysTheSame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*catalogue.Catalogue{"file": load(t, folder(nil)), "packfinderz": catalogue.PackFinderz()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := c.YAML()
			require.NoError(t, err)
			again := load(t, fstest.MapFS{"conf/doorito.yaml": {Data: text}})
			require.Empty(t, again.Warnings())
			require.Equal(t, digests(c), digests(again))
			require.Equal(t, c.Topics(), again.Topics())
		})
	}
}

func digests(c *catalogue.Catalogue) map[string]string {
	all := map[string]string{}
	for _, d := range c.Documents() {
		for _, t := range d.Types {
			all[d.Namespace+" "+t.Name+" "+t.Description] = t.Digest()
		}
	}
	return all
}
