package catalogue

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// yamlToJSON turns a YAML document into JSON.
func yamlToJSON(text []byte) ([]byte, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return nil, notYAML(err)
	}
	if len(node.Content) == 0 {
		return nil, errors.New("is empty")
	}
	return nodeToJSON(node.Content[0])
}

// notYAML returns the error of a text that stops being YAML, with the place. The library tells it
// in words only, and those are about its parser.
func notYAML(err error) error {
	var line int
	if _, unknown := fmt.Sscanf(err.Error(), "yaml: line %d:", &line); unknown != nil {
		return errors.New("is not YAML")
	}
	return fmt.Errorf("is not YAML: check the indentation, brackets and quotes near line %d", line)
}

// nodeToJSON writes a node as JSON. Decoding it into Go values would make times of texts that look
// like dates.
func nodeToJSON(node *yaml.Node) ([]byte, error) {
	value, err := plain(node, 0)
	if err != nil {
		return nil, err
	}
	text, err := canonical(value)
	return []byte(text), err
}

// maxYAMLDepth ends aliases that contain themselves.
const maxYAMLDepth = 100

func plain(node *yaml.Node, depth int) (any, error) {
	if depth > maxYAMLDepth {
		return nil, fmt.Errorf("line %d: is nested too deeply", node.Line)
	}
	node = resolved(node)
	switch node.Kind {
	case yaml.MappingNode:
		object := make(map[string]any, len(node.Content)/2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i].Value
			if _, twice := object[name]; twice {
				return nil, fmt.Errorf("line %d: %q is there twice", node.Content[i].Line, cut(name))
			}
			value, err := plain(node.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			object[name] = value
		}
		return object, nil
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, element := range node.Content {
			value, err := plain(element, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return list, nil
	}
	return scalar(node)
}

func scalar(node *yaml.Node) (any, error) {
	switch node.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		return b, node.Decode(&b)
	case "!!int", "!!float":
		if json.Valid([]byte(node.Value)) {
			return json.Number(node.Value), nil
		}
		var f float64
		if err := node.Decode(&f); err != nil {
			return nil, fmt.Errorf("line %d: %w", node.Line, err)
		}
		return f, nil
	}
	return node.Value, nil
}
