package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// A Page prints one thing for a person to read: titles, and fields below them. All text is taken as
// untrusted.
type Page struct {
	app  *App
	w    io.Writer
	some bool
	err  error
}

func (p *Page) print(text string) { _, _ = p.Write([]byte(text)) }

// Write implements io.Writer, for text that is safe to show. The first error ends the page, and is
// that of whoever prints it.
func (p *Page) Write(text []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	var n int
	n, p.err = p.w.Write(text)
	return n, p.err
}

// Title prints a heading.
func (p *Page) Title(text string) {
	if p.some {
		p.print("\n")
	}
	p.some = true
	p.print(p.app.Paint(p.app.OutTTY, styleBold, safetext.Line(text)) + "\n")
}

// Field prints a name and its value; an empty value is left out.
func (p *Page) Field(name, value string) {
	if value != "" {
		p.print(fmt.Sprintf("  %-13s %s\n", name, safetext.Line(value)))
	}
}

// Line prints one line of text.
func (p *Page) Line(text string) { p.print("  " + safetext.Line(text) + "\n") }

// Time shows an instant; for a person also how long ago it was.
func (p *Page) Time(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	text := t.UTC().Format(time.RFC3339)
	if p.app.OutTTY {
		text += " (" + words.Relative(*t, p.app.Now()) + ")"
	}
	return text
}

// Since shows the beginning of a state; nothing when it is not known.
func (p *Page) Since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return " since " + p.Time(t)
}

// Payload prints what an event carries, in the way that was asked for.
func (p *Page) Payload(how string, payload, headers json.RawMessage) {
	if how == "" {
		return
	}
	for _, part := range []struct {
		title string
		doc   json.RawMessage
	}{{"headers", headers}, {"payload", payload}} {
		if part.doc == nil {
			continue
		}
		p.Title(part.title)
		doc := []byte(part.doc)
		var pretty bytes.Buffer
		if how == "pretty" && json.Indent(&pretty, doc, "", "  ") == nil {
			doc = pretty.Bytes()
		}
		// Escaped inside its strings the document keeps its meaning and no terminal acts on it.
		p.print(string(safetext.JSON(doc)) + "\n")
	}
}

// Wrapped prints a paragraph, broken between words to the width of a terminal.
func (p *Page) Wrapped(text string) {
	text = safetext.Line(text)
	if p.app.Width > 0 {
		text = Fill(strings.Fields(text), 0, 0, min(p.app.Width, 100))
	}
	p.print(text + "\n")
}

// Gap prints an empty line.
func (p *Page) Gap() { p.print("\n") }

// Fill writes words in lines of at most width, broken between words only: an id broken at a hyphen
// can be neither selected nor searched for. The first line begins at a column that the caller has
// reached, the others are indented.
func Fill(words []string, at, indent, width int) string {
	var b strings.Builder
	for i, word := range words {
		n := ansi.StringWidth(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
