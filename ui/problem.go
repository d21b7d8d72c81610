package ui

import (
	"encoding/json"
	"net/http"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// problem is an error of the API (RFC 9457), with the word of the exit code that the command line
// would have.
type problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	Code   string `json:"code"`
}

func writeProblem(w http.ResponseWriter, status int, err error) {
	kind, _ := fault.KindOf(err)
	p := problem{Status: status, Title: http.StatusText(status), Detail: safetext.Redact(err.Error()), Hint: fault.HintOf(err), Code: string(kind)}
	if status == http.StatusTooManyRequests {
		p.Code = "busy"
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	doc, _ := json.Marshal(p)                        // texts and a number, which cannot fail
	_, _ = w.Write(append(safetext.JSON(doc), '\n')) // the caller has gone
}
