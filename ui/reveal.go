package ui

import (
	"bytes"
	"encoding/json"
	"net/url"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/signin/way"
)

// PayloadsReveal is the Config.Payloads with which operators may see what one event carries.
const PayloadsReveal = way.PayloadsReveal

// inlineBytes is how much of a payload a page shows; the rest is in the file.
const inlineBytes = 64 << 10

// payloadData is what an event carries, as text that was made here: a script would lose digits of
// large numbers.
type payloadData struct {
	EventID, Payload, Headers string
	// Back is the page it was asked on. Cut: there is more of the payload than is shown.
	Back, Note string
	Cut        bool
}

// reveal answers with the payload at once: an address that shows it would stay in the browser's
// history.
func reveal(r *request) (answer, error) {
	file, err := r.ticked("file")
	if err != nil {
		return answer{}, err
	}
	note := r.field("note")
	found, err := r.outbox.Reveal(r.Context(), dlq.RevealParams{ID: r.PathValue("id"), Actor: r.who.Name, Note: note, Detail: r.detail()})
	if err != nil {
		return answer{}, err
	}
	payload := indented(found.Payload)
	if file {
		return answer{file: "payload-" + found.EventID + ".txt", text: payload}, nil
	}
	d := payloadData{EventID: found.EventID, Payload: payload, Headers: indented(found.Headers), Back: backOf(r.Request), Note: note}
	if len(d.Payload) > inlineBytes {
		d.Payload, d.Cut = d.Payload[:inlineBytes], true
	}
	page := &view{Title: "Payload", Command: "outboxctl event show " + found.EventID + " --payload", template: "payload", Data: d}
	return answer{page: page}, nil
}

// indented is JSON over several lines, with every number as it was written.
func indented(doc json.RawMessage) string {
	var out bytes.Buffer
	if len(doc) == 0 {
		return ""
	}
	if err := json.Indent(&out, doc, "", "  "); err != nil {
		return safetext.Block(string(doc))
	}
	return safetext.Block(out.String())
}

// forget makes a consumer forget an event, and so process it once more.
func forget(r *request) (answer, error) {
	consumer := r.field("consumer")
	if r.field("confirm") != consumer {
		return answer{}, fault.Hint(fault.Preconditionf("not confirmed: type the name of the consumer, %q", consumer), "nothing was changed")
	}
	_, err := r.outbox.Forget(r.Context(), idem.ForgetParams{ID: r.PathValue("id"), Consumer: consumer, Actor: r.who.Name, Note: r.field("note"), Detail: r.detail()})
	return answer{at: "/events/" + url.PathEscape(r.PathValue("id"))}, err
}
