package ui

import (
	"fmt"
	"net/http"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

const (
	// mostCounted is where the count of a filtered list ends: further on it would cost more than it
	// tells.
	mostCounted = 10_000
	mostNewer   = 1_000
)

// countDeadLetters returns how many dead letters match, in words, where that is cheap to tell.
func countDeadLetters(r *request) (string, error) {
	filter, err := r.deadLetters()
	if err != nil {
		return "", err
	}
	if s := r.snapshot.Stats; s != nil && filter.State == dlq.StateOpen && !filter.Narrows() {
		return words.Counted(s.DLQ.Open, "dead letter"), nil
	}
	n, counted, err := r.outbox.CountDeadLettersUpTo(r.Context(), filter, mostCounted+1)
	switch {
	case err != nil || !counted || n == 0:
		return "", err
	case n > mostCounted:
		return words.Count(mostCounted) + "+ dead letters", nil
	}
	return words.Counted(n, "dead letter"), nil
}

// deadLetters is the filter that a request asks for.
func (r *request) deadLetters() (dlq.Filter, error) {
	now, err := r.outbox.Now(r.Context())
	if err != nil {
		return dlq.Filter{}, err
	}
	return deadLetterFilter(r.URL.Query(), now)
}

// serveNewer answers an open list with how many rows came since it was read, so that it need not
// move by itself.
func (h *Handler) serveNewer(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	read, err := time.Parse(time.RFC3339Nano, q.Get("v"))
	if err != nil {
		h.fail(w, r, fault.Usagef("v: %q is not a time", q.Get("v")))
		return
	}
	q.Del("v")
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	var n int64
	err = h.with(r, route{}, func(req *request) error {
		filter, err := req.deadLetters()
		if err != nil {
			return err
		}
		filter.Since = read
		page := outbox.Page{Limit: mostNewer, LookAt: h.searchRows, LookFor: searchTime}
		_, err = req.outbox.ListDeadLetters(r.Context(), outbox.ListParams{Filter: filter, Page: page}, func(dlq.Entry) error { n++; return nil })
		return err
	})
	switch {
	case err != nil:
		h.fail(w, r, err)
	case n == 0:
		w.WriteHeader(http.StatusNoContent)
	default:
		plus := map[bool]string{true: "+"}[n == mostNewer]
		writeText(w, http.StatusOK, fmt.Sprintf("%s%s newer, show", words.Count(n), plus))
	}
}
