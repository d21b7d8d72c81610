package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// WriteDiff shows how one text became another, line by line with three lines around each change,
// coloured on a terminal.
func (a *App) WriteDiff(w io.Writer, tty bool, was, is string) {
	was, is = strings.TrimRight(was, "\n")+"\n", strings.TrimRight(is, "\n")+"\n"
	diff, _ := udiff.ToUnifiedDiff("", "", was, udiff.Lines(was, is), udiff.DefaultContextLines) // the edits are its own
	gap := func() { fmt.Fprintln(w, a.Paint(tty, StyleFaint, "  …")) }
	line := 1
	for _, hunk := range diff.Hunks {
		if hunk.FromLine > line {
			gap()
		}
		line = hunk.FromLine
		for _, l := range hunk.Lines {
			text := safetext.Line(strings.TrimSuffix(l.Content, "\n"))
			switch l.Kind {
			case udiff.Delete:
				text, line = a.Paint(tty, StyleError, "- "+text), line+1
			case udiff.Insert:
				text = a.Paint(tty, StyleGood, "+ "+text)
			default:
				text, line = "  "+text, line+1
			}
			fmt.Fprintln(w, text)
		}
	}
	if line <= strings.Count(was, "\n") {
		gap()
	}
}

// WriteJSONDiff is WriteDiff for two documents, each indented.
func (a *App) WriteJSONDiff(w io.Writer, tty bool, was, is []byte) {
	a.WriteDiff(w, tty, indentedLike(was, is), indented(is))
}

func indented(data []byte) string {
	var text bytes.Buffer
	if json.Indent(&text, bytes.TrimSpace(data), "", "  ") != nil {
		return string(data)
	}
	return text.String()
}

// indentedLike is indented, with the keys sorted where those of another payload are, as jq writes
// them: else all lines would differ.
func indentedLike(data, other []byte) string {
	if sorted := indentedSorted(data); sorted != "" && indentedSorted(other) == indented(other) {
		return sorted
	}
	return indented(data)
}

func indentedSorted(data []byte) string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return ""
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if encoder.Encode(value) != nil {
		return ""
	}
	return strings.TrimSuffix(text.String(), "\n")
}
