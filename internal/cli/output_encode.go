package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// EncodeJSON writes one value as JSON that no terminal acts on.
func EncodeJSON(w io.Writer, value any, indent string) error {
	doc, err := marshalJSON(value, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(safetext.JSON(doc))
	return err
}

func marshalJSON(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return b.Bytes(), nil
}

func encodeYAML(w io.Writer, value any) error {
	plain, err := marshalJSON(value, "  ")
	if err != nil {
		return err
	}
	quoted := safetext.JSONForYAML(plain)
	doc, err := yaml.JSONToYAML(quoted)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	// YAML has no escape outside double quotes. JSON has nothing but double quotes, and is YAML too.
	if safetext.Block(string(doc)) != string(doc) {
		doc = quoted
	}
	_, err = w.Write(doc)
	return err
}

type jsonList[T any] struct {
	out    io.Writer
	fields []string
	some   bool
}

func (l *jsonList[T]) Write(row T) error {
	open := ",\n"
	if !l.some {
		open = "[\n"
	}
	l.some = true
	picked, err := pick(row, l.fields)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := EncodeJSON(&b, picked, "  "); err != nil {
		return err
	}
	body := strings.ReplaceAll(strings.TrimRight(b.String(), "\n"), "\n", "\n  ")
	_, err = io.WriteString(l.out, open+"  "+body)
	return err
}

func (l *jsonList[T]) Close() error {
	end := "\n]\n"
	if !l.some {
		end = "[]\n"
	}
	_, err := io.WriteString(l.out, end)
	return err
}

type jsonLines[T any] struct {
	out    io.Writer
	fields []string
}

func (l *jsonLines[T]) Write(row T) error {
	picked, err := pick(row, l.fields)
	if err != nil {
		return err
	}
	return EncodeJSON(l.out, picked, "")
}
func (l *jsonLines[T]) Close() error { return nil }

type yamlList[T any] struct {
	out    io.Writer
	fields []string
	rows   []any
}

func (l *yamlList[T]) Write(row T) error {
	picked, err := pick(row, l.fields)
	l.rows = append(l.rows, picked)
	return err
}

func (l *yamlList[T]) Close() error {
	if l.rows == nil {
		l.rows = []any{}
	}
	return encodeYAML(l.out, l.rows)
}

type idList[T any] struct {
	out  io.Writer
	view View[T]
}

func (l *idList[T]) Write(row T) error {
	_, err := fmt.Fprintln(l.out, safetext.Line(l.view.ID(row)))
	return err
}
func (l *idList[T]) Close() error { return nil }
