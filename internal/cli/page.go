package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// A Page prints one thing for a person to read: titles, and fields below them. All text is taken as untrusted.
type Page struct {
	app  *App
	w    io.Writer
	some bool
	err  error
}

func (a *App) Page(w io.Writer) *Page { return &Page{app: a, w: w} }

func (p *Page) print(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
	}
}

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

func (p *Page) Line(text string) { p.print("  " + safetext.Line(text) + "\n") }

// Time shows an instant; for a person also how long ago it was.
func (p *Page) Time(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	text := t.UTC().Format(time.RFC3339)
	if p.app.OutTTY {
		text += " (" + humanize.RelTime(*t, p.app.Now(), "ago", "from now") + ")"
	}
	return text
}

func (p *Page) Since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return " since " + p.Time(t)
}

// How a payload is shown, when it is.
const (
	PayloadPretty = "pretty"
	PayloadRaw    = "raw"
)

// Payload prints what an event carries, in the way that was asked for, and ends the page.
func (p *Page) Payload(how string, payload, headers json.RawMessage) error {
	if how == "" {
		return p.err
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
		if how == PayloadPretty && json.Indent(&pretty, doc, "", "  ") == nil {
			doc = pretty.Bytes()
		}
		// Escaped inside its strings the document keeps its meaning and no terminal acts on it.
		p.print(string(safetext.JSON(doc)) + "\n")
	}
	return p.err
}
