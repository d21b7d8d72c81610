package ui

import (
	"hash/fnv"
	"net/http"
	"strconv"
	"time"
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
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	part := &partWriter{ResponseWriter: w, seen: seen}
	h.servePage(part, r, to)
}

// partWriter sends a page only when it is another one than was seen. A page is written whole, by
// one call.
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
