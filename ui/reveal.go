package ui

import (
	"bytes"
	"encoding/json"
	"net/http"
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

type revealRequest struct {
	noted

	File word `json:"file"`
}

// reveal answers with the payload at once: an address that shows it would stay in the browser's
// history.
func reveal(r *request, p revealRequest) (answer, error) {
	found, err := r.outbox.Reveal(r.Context(), dlq.RevealParams{ID: r.PathValue("id"), Actor: r.who.Name, Note: p.Note, Detail: r.detail()})
	if err != nil {
		return answer{}, err
	}
	payload := indented(found.Payload)
	if file, err := p.File.yes("file"); file || err != nil {
		return answer{file: "payload-" + found.EventID + ".txt", text: payload}, err
	}
	d := payloadData{EventID: found.EventID, Payload: payload, Headers: indented(found.Headers), Back: backOf(r.Request), Note: p.Note}
	if len(d.Payload) > inlineBytes {
		d.Payload, d.Cut = d.Payload[:inlineBytes], true
	}
	page := &view{Title: "Payload", Command: "outboxctl event show " + found.EventID + " --payload", template: "payload", Data: d}
	return answer{status: http.StatusOK, body: found, page: page}, nil
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

type forgetRequest struct {
	Consumer string `json:"consumer"`
	Confirm  string `json:"confirm"`
	Note     string `json:"note"`
	Inbox    word   `json:"inbox"`
}

// forget makes a consumer forget an event, and so process it once more.
func forget(r *request, p forgetRequest) (answer, error) {
	inbox, err := p.Inbox.yes("inbox")
	if err != nil {
		return answer{}, err
	}
	if p.Confirm != p.Consumer {
		return answer{}, fault.Hint(fault.Preconditionf("not confirmed: type the name of the consumer, %q", p.Consumer), "nothing was changed")
	}
	found, err := r.outbox.Forget(r.Context(), idem.ForgetParams{
		ID: r.PathValue("id"), Consumer: p.Consumer, Inbox: inbox, Actor: r.who.Name, Note: p.Note, Detail: r.detail(),
	})
	return answer{at: "/events/" + url.PathEscape(r.PathValue("id")), status: http.StatusOK, body: found}, err
}
