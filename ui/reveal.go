package ui

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// PayloadsReveal is the Config.Payloads with which operators may see what one event carries.
const PayloadsReveal = "reveal"

// inlineBytes is how much of a payload a page shows; the rest is in the file.
const inlineBytes = 64 << 10

// revealTable is the addresses that reveal what events carry, and forgetTable those that make a consumer forget.
func revealTable() []changeRoute {
	return []changeRoute{
		{http.MethodPost, "/dead-letters/{id}/reveal", revealByForm},
		{http.MethodPost, "/events/{id}/reveal", revealByForm},
		{http.MethodPost, "/api/v1/dead-letters/{id}/reveal", revealByAPI},
		{http.MethodPost, "/api/v1/events/{id}/reveal", revealByAPI},
	}
}

func forgetTable() []changeRoute {
	return []changeRoute{
		{http.MethodPost, "/events/{id}/forget", forgetByForm},
		{http.MethodPost, "/api/v1/events/{id}/forget", forgetByAPI},
	}
}

func revealByAPI(r *changeRequest) (changed, error) {
	var p struct {
		Note string `json:"note"`
	}
	if err := readJSON(r.Request, &p); err != nil {
		return changed{}, err
	}
	found, err := r.reveal(p.Note)
	return changed{status: http.StatusOK, body: found}, err
}

func (r *changeRequest) reveal(note string) (dlq.RevealResult, error) {
	return r.outbox.Reveal(r.Context(), dlq.RevealParams{ID: r.PathValue("id"), Actor: r.who.Name, Note: note, Detail: r.detail()})
}

// payloadData is what an event carries, as text that was made here: a script would lose digits of large numbers.
type payloadData struct {
	EventID, Payload, Headers string
	// Back is the page it was asked on. Cut: there is more of the payload than is shown.
	Back, Note string
	Cut        bool
}

// revealByForm answers with the payload at once: an address that shows it would stay in the browser's history.
func revealByForm(r *changeRequest) (changed, error) {
	form, err := readForm(r.Request, "note", "file")
	if err != nil {
		return changed{}, err
	}
	found, err := r.reveal(form.Get("note"))
	if err != nil {
		return changed{}, err
	}
	payload := indented(found.Payload)
	if form.Get("file") != "" {
		return changed{file: "payload-" + found.EventID + ".txt", write: func(w io.Writer) error {
			_, err := io.WriteString(w, payload)
			return err
		}}, nil
	}
	d := payloadData{EventID: found.EventID, Payload: payload, Headers: indented(found.Headers), Back: backOf(r.Request), Note: form.Get("note")}
	if len(d.Payload) > inlineBytes {
		d.Payload, d.Cut = d.Payload[:inlineBytes], true
	}
	return changed{page: &view{Title: "Payload", Command: "outboxctl event show " + found.EventID + " --payload", template: "payload", Data: d}}, nil
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

// forgetRequest asks that a consumer forgets an event, and so processes it once more.
type forgetRequest struct {
	Consumer string `json:"consumer"`
	Confirm  string `json:"confirm"`
	Note     string `json:"note"`
	Inbox    bool   `json:"inbox"`
}

func forgetByForm(r *changeRequest) (changed, error) {
	form, err := readForm(r.Request, "consumer", "confirm", "note", "inbox")
	if err != nil {
		return changed{}, err
	}
	return forget(r, forgetRequest{form.Get("consumer"), form.Get("confirm"), form.Get("note"), form.Get("inbox") != ""})
}

func forgetByAPI(r *changeRequest) (changed, error) {
	var p forgetRequest
	if err := readJSON(r.Request, &p); err != nil {
		return changed{}, err
	}
	return forget(r, p)
}

func forget(r *changeRequest, p forgetRequest) (changed, error) {
	if p.Confirm != p.Consumer {
		return changed{}, fault.Hint(fault.Preconditionf("not confirmed: type the name of the consumer, %q", p.Consumer), "nothing was changed")
	}
	found, err := r.outbox.Forget(r.Context(), idem.ForgetParams{
		ID: r.PathValue("id"), Consumer: p.Consumer, Inbox: p.Inbox, Actor: r.who.Name, Note: p.Note, Detail: r.detail(),
	})
	return changed{at: "/events/" + url.PathEscape(r.PathValue("id")), status: http.StatusOK, body: found}, err
}
