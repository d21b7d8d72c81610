package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// A page prints one thing for a person to read: titles, and fields below them. All text is taken as untrusted.
type page struct {
	app  *App
	w    io.Writer
	some bool
	err  error
}

func (a *App) page(w io.Writer) *page { return &page{app: a, w: w} }

func (p *page) print(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
	}
}

func (p *page) title(text string) {
	if p.some {
		p.print("\n")
	}
	p.some = true
	p.print(p.app.paint(p.app.OutTTY, styleBold, safetext.Line(text)) + "\n")
}

// field prints a name and its value; an empty value is left out.
func (p *page) field(name, value string) {
	if value != "" {
		p.print(fmt.Sprintf("  %-13s %s\n", name, safetext.Line(value)))
	}
}

func (p *page) line(text string) { p.print("  " + safetext.Line(text) + "\n") }

// time shows an instant; for a person also how long ago it was.
func (p *page) time(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	text := t.UTC().Format(time.RFC3339)
	if p.app.OutTTY {
		text += " (" + humanize.RelTime(*t, p.app.Now(), "ago", "from now") + ")"
	}
	return text
}

func (p *page) since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return " since " + p.time(t)
}

// payload prints what an event carries, in the way that was asked for, and ends the page.
func (p *page) payload(how string, payload, headers json.RawMessage) error {
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
		p.title(part.title)
		doc := []byte(part.doc)
		var pretty bytes.Buffer
		if how == payloadPretty && json.Indent(&pretty, doc, "", "  ") == nil {
			doc = pretty.Bytes()
		}
		// Escaped inside its strings the document keeps its meaning and no terminal acts on it.
		p.print(string(safetext.JSON(doc)) + "\n")
	}
	return p.err
}
