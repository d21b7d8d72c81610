package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/aymanbagabas/go-udiff"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// editable is the largest payload that a page lets edit: a form of it must stay below maxBody.
const editable = 256 << 10

// editData is a dead letter whose payload is corrected on a page.
type editData struct {
	Letter   dlq.Entry
	Database string
	// Data is the payload as it was typed, or as the event died with it; Note is why it is edited.
	Data, Note string
	// Field is the one that the error names; the lines of Schema that have it are marked.
	Field  string
	Schema []codeLine
	// Problem is what is wrong with Data. Diff is the difference to the old payload, once nothing is.
	Problem string
	Diff    []codeLine
}

// codeLine is a line of a schema, with the mark ! at Field, or of a difference, with + or -.
type codeLine struct{ Mark, Text string }

// edit corrects what a dead event carries: it first shows the payload, then what is wrong with the
// new one or how it differs, and sends it when that is confirmed. Each look at the payload is audited.
func edit(r *request) (answer, error) {
	send, err := r.ticked("send")
	if err != nil {
		return answer{}, err
	}
	note := r.field("note")
	if note == "" {
		return answer{}, fault.Usagef("say why, for the audit")
	}
	letter, err := r.outbox.ChooseEdit(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	d := newEdit(r, letter, note)
	typed := r.PostForm.Get("data")
	if typed != "" {
		d.look(letter, typed)
	}
	if d.Diff != nil && send {
		done, err := letter.Apply(r.Context(), dlq.EditParams{Data: []byte(typed), Actor: r.who.Name, Note: note, Detail: r.detail()})
		return answer{at: "/events/" + done.CorrectedBy}, err
	}
	if len(d.Data) > editable {
		return answer{}, fault.Hint(fault.Preconditionf("the payload is too large for a page"), "outboxctl dlq edit %s", letter.Letter.ID)
	}
	_, err = r.outbox.Reveal(r.Context(), dlq.RevealParams{ID: letter.Letter.ID, Actor: r.who.Name, Note: note, Detail: r.detail()})
	return answer{page: &view{Title: "Edit", Command: "outboxctl dlq edit " + letter.Letter.ID, template: "edit", Data: d}}, err
}

var namedField = regexp.MustCompile(`\bdata(?:[./]([A-Za-z0-9_-]+)|\[\d+\])+`)

func newEdit(r *request, e *dlq.Editing, note string) *editData {
	d := &editData{Letter: e.Letter, Database: e.Database.Name, Note: note, Data: typeable(e.Data)}
	said := e.Letter.ErrorMessage
	if err := e.Check(e.Data); err != nil {
		d.Problem = err.Error()
		said = d.Problem + " " + said
	}
	if found := namedField.FindStringSubmatch(said); found != nil {
		d.Field = found[1]
	}
	found, known := r.h.reader.types.Load().Find(e.Letter.Namespace, e.Letter.EventType)
	if !known {
		return d // there is none to compare with
	}
	for line := range strings.Lines(schemaText(found)) {
		mark := ""
		if d.Field != "" && strings.HasPrefix(strings.TrimSpace(line), `"`+d.Field+`":`) {
			mark = "!"
		}
		d.Schema = append(d.Schema, codeLine{mark, strings.TrimRight(line, "\n")})
	}
	return d
}

// schemaText is the schema of a type, or its fields where it has only those.
func schemaText(t catalogue.Type) string {
	text := indented(t.Schema.JSON())
	if strings.Contains(text, `"properties"`) {
		return text
	}
	for _, f := range t.Fields() {
		text += fmt.Sprintf("\n%q: %s", f.Name, f.Type)
		if f.Required {
			text += ", required"
		}
	}
	return strings.TrimLeft(text, "\n")
}

func (d *editData) look(e *dlq.Editing, typed string) {
	was := d.Data
	d.Data = typeable([]byte(typed))
	d.Problem = ""
	if err := e.Check([]byte(typed)); err != nil {
		d.Problem = err.Error()
		return
	}
	if d.Data == was {
		d.Problem = "The payload is as it was."
		return
	}
	d.Diff = difference(was, d.Data)
}

// typeable is JSON as a person edits it: over several lines, numbers as they were written, and
// characters that are not seen as escapes, which mean the same.
func typeable(doc []byte) string {
	var lines bytes.Buffer
	if json.Indent(&lines, bytes.TrimSpace(doc), "", "  ") != nil {
		return string(doc)
	}
	var out strings.Builder
	for _, c := range lines.String() {
		switch {
		case c == '\n' || !unicode.In(c, unicode.Cf, unicode.Cc, unicode.Co, unicode.Zl, unicode.Zp):
			out.WriteRune(c)
		default:
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
	}
	return out.String()
}

func difference(was, is string) (lines []codeLine) {
	was, is = was+"\n", is+"\n"
	diff, _ := udiff.ToUnifiedDiff("", "", was, udiff.Lines(was, is), udiff.DefaultContextLines) // the edits are its own
	for i, hunk := range diff.Hunks {
		if i > 0 {
			lines = append(lines, codeLine{"", "…"})
		}
		for _, l := range hunk.Lines {
			mark := map[udiff.OpKind]string{udiff.Delete: "-", udiff.Insert: "+"}[l.Kind]
			lines = append(lines, codeLine{mark, safetext.Line(strings.TrimSuffix(l.Content, "\n"))})
		}
	}
	return lines
}
