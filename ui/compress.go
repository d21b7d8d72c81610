package ui

import (
	"fmt"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// compressFrom is the size from which an answer is compressed: less fits into a packet or two.
const compressFrom = 1 << 10

// compressed sends pages and assets in a fraction of their bytes.
//
// The length of a compressed answer tells anyone who sees it whether a guess is in the answer
// twice, when they can put guesses there (BREACH). So what another site made a browser ask for is
// not compressed, nor the answer to a change, which may be a payload. No answer has a token against
// forged requests that could be guessed: those are told by where they come from.
func compressed(next http.Handler) (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(compressFrom), gzhttp.EnableZstd(false), gzhttp.ContentTypes([]string{
		"text/html", "text/css", "text/javascript", "image/svg+xml",
	}))
	if err != nil {
		return nil, fmt.Errorf("prepare compression: %w", err)
	}
	smaller := wrap(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && askedByUs(r) {
			smaller.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// askedByUs reports whether no other site made the browser ask. Programs do not say; browsers that
// do not either are on a plain connection, where an observer of lengths sees everything.
func askedByUs(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return false
}
