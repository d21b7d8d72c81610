package catalogue

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// YAML writes the catalogue as Load reads it, with every schema inside and every policy spelled out
// that is not the default.
func (c *Catalogue) YAML() ([]byte, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	for _, d := range c.documents {
		node, err := d.node()
		if err != nil {
			return nil, err
		}
		if err := encoder.Encode(node); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), encoder.Close()
}

func (d Document) node() (*yaml.Node, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	put(root, "outbox", json.Number("1"))
	put(root, "name", d.Name)
	if d.Namespace != AllNamespaces {
		put(root, "namespace", d.Namespace)
	}
	topics := &yaml.Node{Kind: yaml.MappingNode}
	for _, logical := range slices.Sorted(maps.Keys(d.Topics)) {
		put(topics, logical, d.Topics[logical])
	}
	put(root, "topics", topics)
	types := &yaml.Node{Kind: yaml.MappingNode}
	for _, t := range d.Types {
		node, err := t.node()
		if err != nil {
			return nil, err
		}
		put(types, t.Name, node)
	}
	put(root, "types", types)
	return root, nil
}

func (t Type) node() (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, one := range t.texts() {
		if value := *one.text; value != "" && (len(one.values) == 0 || value != one.values[0]) {
			put(node, one.key, value)
		}
	}
	if len(t.Was) > 0 {
		was := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, name := range t.Was {
			was.Content = append(was.Content, text(name))
		}
		put(node, "was", was)
	}
	if t.CloudEventsSource != "" {
		put(node, "cloudevents", map[string]any{"source": t.CloudEventsSource})
	}
	putPolicy(node, t.Policy)
	switch t.Schema {
	case "", Object: // the default
	case Any:
		put(node, "schema", string(Any))
	default:
		schema, err := decode(string(t.Schema))
		if err != nil {
			return nil, err
		}
		put(node, "schema", schema)
	}
	return node, nil
}

// valueNode writes JSON as YAML, what is small on one line.
func valueNode(value any) *yaml.Node {
	switch v := value.(type) {
	case *yaml.Node:
		return v
	case map[string]any:
		node := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			put(node, name, v[name])
		}
		if len(v) > 0 && flat(v) {
			node.Style = yaml.FlowStyle
		}
		return node
	case []any:
		node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, element := range v {
			node.Content = append(node.Content, valueNode(element))
		}
		return node
	case string:
		return text(v)
	case json.Number:
		tag := "!!float"
		if _, err := v.Int64(); err == nil {
			tag = "!!int"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: v.String()}
	}
	node := &yaml.Node{}
	_ = node.Encode(value) // null and truth values always encode
	return node
}

// flat reports whether an object holds objects of one level at most.
func flat(object map[string]any) bool {
	for _, value := range object {
		if below, ok := value.(map[string]any); ok {
			for _, deep := range below {
				if _, ok := deep.(map[string]any); ok {
					return false
				}
			}
			if len(object) > 3 {
				return false
			}
		}
	}
	return true
}

func put(node *yaml.Node, key string, value any) {
	node.Content = append(node.Content, text(key), valueNode(value))
}

// text is quoted where YAML would otherwise read something else.
func text(s string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(s)
	return node
}
