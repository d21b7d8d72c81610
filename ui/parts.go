package ui

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// shortestPoll is the pace at which an open page asks at most.
const shortestPoll = 250 * time.Millisecond

// versionHeader names the content of a part, for the next time it is asked for.
const versionHeader = "Outboxctl-Version"

// servePart answers a page that is open already and asks what has changed since the version it has:
// nothing, or the page of now. That is a short request each time, because a connection kept open
// for each tab would use up the six that a browser has for one host.
func (h *Handler) servePart(w http.ResponseWriter, r *http.Request, to route) {
	q := r.URL.Query()
	seen := q.Get("v")
	q.Del("v")
	h.servePage(&partWriter{ResponseWriter: w, seen: seen}, asking(r, q), to)
}

// asking is a request with another query.
func asking(r *http.Request, q url.Values) *http.Request {
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	return r
}

// partWriter sends a page, which is written by one call, only when it is not the one that was seen.
type partWriter struct {
	http.ResponseWriter
	seen   string
	status int
}

func (w *partWriter) WriteHeader(status int) { w.status = status }

func (w *partWriter) Write(page []byte) (int, error) {
	sum := fnv.New64a()
	_, _ = sum.Write(page) // a hash takes everything
	version := strconv.FormatUint(sum.Sum64(), 36)
	w.Header().Set(versionHeader, version)
	if w.status == http.StatusOK && version == w.seen {
		w.Header().Del("Content-Type")
		w.ResponseWriter.WriteHeader(http.StatusNoContent)
		return len(page), nil
	}
	w.ResponseWriter.WriteHeader(w.status)
	return w.ResponseWriter.Write(page)
}

const (
	mostCounted = 10_000 // to count on would cost more than it tells
	mostNewer   = 1_000
)

// countDeadLetters returns how many dead letters match, in words, where that is cheap to tell.
func countDeadLetters(r *request) (string, error) {
	filter, err := deadLetterFilter(r.URL.Query(), r.now)
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
	var n int64
	err = h.with(asking(r, q), route{}, func(req *request) error {
		filter, err := deadLetterFilter(q, req.now)
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
