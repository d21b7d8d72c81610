package ui

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// Handler is the web page.
type Handler struct {
	cfg    Config
	place  string
	guard  *guard
	reader *reader
	// elsewhere: what is read is not where changes are written.
	elsewhere bool
	snapshots *snapshots
	// turns has room for as many requests as there are connections to read with.
	turns      chan struct{}
	searchRows int // the constant, or fewer in a test
	// changes is nil where nothing can be changed or revealed.
	changes   *changes
	examined  kept[examination]
	waiting   kept[waiting]
	assets    assets
	templates map[string]*template.Template
	mux       *http.ServeMux
	// served is answer, compressed and counted.
	served  http.Handler
	stop    context.CancelFunc
	stopped chan struct{}
}

// Shutdown ends what the page does beside answering requests. A run can be resumed.
func (h *Handler) Shutdown(ctx context.Context) error {
	h.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-h.stopped
		if h.changes != nil {
			h.changes.end()
		}
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ServeHTTP implements http.Handler. A proxy may have taken the base path off, or not.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if base := h.cfg.BasePath; base != "" {
		if r.URL.Path == base {
			http.Redirect(w, r, base+"/", http.StatusMovedPermanently)
			return
		}
		if strings.HasPrefix(r.URL.Path, base+"/") {
			r = r.Clone(r.Context())
			r.URL.Path = strings.TrimPrefix(r.URL.Path, base)
			r.URL.RawPath = ""
		}
	}
	h.served.ServeHTTP(w, r)
}

// answer answers a request whose address has no base path.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request) {
	// A supervisor asks by an address of its own, and learns nothing but whether we live.
	switch r.URL.Path {
	case "/healthz":
		writeText(w, http.StatusOK, "ok\n")
		return
	case "/readyz":
		h.serveReady(w)
		return
	}
	if err := h.guard.check(w, r); err != nil {
		h.fail(w, r, err)
		return
	}
	if err := readable(r.URL); err != nil {
		h.fail(w, r, err)
		return
	}
	// The page that asks for a sign-in needs them, and they tell nothing.
	if strings.HasPrefix(r.URL.Path, "/assets/") {
		h.mux.ServeHTTP(w, r)
		return
	}
	if h.cfg.Enter != nil && h.cfg.Enter(w, r) {
		return
	}
	who, err := h.cfg.Identify(r)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), whoKey{}, who)))
}

// readable refuses a query whose broken part, and a filter with it, would be left out, and a path
// with // or .., which would lead to an address without the base path.
func readable(u *url.URL) error {
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return fault.Usagef("the query cannot be read: %w", err)
	}
	if u.Path != "/" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
		return fault.NotFoundf("there is no page at this address")
	}
	return nil
}

type whoKey struct{}

// whoOf is the user who makes a request; empty before they were identified.
func whoOf(r *http.Request) Identity {
	who, _ := r.Context().Value(whoKey{}).(Identity)
	return who
}

// serveReady answers whether figures come in. A probe is no viewer.
func (h *Handler) serveReady(w http.ResponseWriter) {
	if s := h.snapshots.peek(); s.Stats == nil || s.Err != nil {
		writeText(w, http.StatusServiceUnavailable, "not ready\n")
		return
	}
	writeText(w, http.StatusOK, "ok\n")
}

// serveSignOut signs a browser out. It is answered as one who is not known: what they may not see
// any more is not shown, and a browser that keeps a name and a password forgets them.
func (h *Handler) serveSignOut(w http.ResponseWriter, r *http.Request) {
	h.cfg.Leave(w, r)
	stranger := r.WithContext(context.WithValue(r.Context(), whoKey{}, nil))
	h.fail(w, stranger, fault.Hint(fmt.Errorf("%w: you have signed out", ErrNotSignedIn), "close this window, or sign in again"))
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, text) // the caller has gone
}

// request is one request, and the outbox as it reads it, or changes it for an operator.
type request struct {
	*http.Request
	h        *Handler
	outbox   *dlq.Outbox
	who      Identity
	snapshot snapshot
	// now is the database's clock when the request began to read; zero where it does not.
	now time.Time
}

// with answers a request inside one read-only transaction, or without the database when the route
// is still.
func (h *Handler) with(r *http.Request, to route, do func(*request) error) error {
	if to.takes != nil {
		if err := known(r.URL.Query(), to.takes...); err != nil {
			return err
		}
	}
	req := &request{Request: r, h: h, who: whoOf(r), snapshot: h.snapshots.current()}
	if to.still {
		req.outbox = dlq.New(nil, h.reader.types.Load())
		return do(req)
	}
	// One that comes with many others is told to come again instead of waiting behind all of them.
	if err := takePlace(r.Context(), h.turns, h.cfg.QueryTimeout, "too many requests wait for the database"); err != nil {
		return err
	}
	defer func() { <-h.turns }()
	pool := h.cfg.ReadPool
	if to.fresh && h.elsewhere {
		pool = h.cfg.Pool
	}
	return h.reader.doOn(r.Context(), pool, func(o *dlq.Outbox, now time.Time) error {
		req.outbox, req.now = o, now
		return do(req)
	})
}

func takePlace(ctx context.Context, places chan<- struct{}, limit time.Duration, taken string) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case places <- struct{}{}:
		return nil
	case <-timer.C:
		return busy("%s", taken)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Handler) servePage(w http.ResponseWriter, r *http.Request, to route) {
	if clean := tidy(r.URL.Query()); to.form && clean != r.URL.Query().Encode() {
		http.Redirect(w, r, h.cfg.BasePath+strings.TrimSuffix(to.path+"?"+clean, "?"), http.StatusSeeOther)
		return
	}
	var v *view
	err := h.with(r, to, func(req *request) (err error) {
		if v, err = to.page(req); err == nil {
			v.Now = req.now
		}
		return err
	})
	switch {
	case err != nil:
		h.fail(w, r, err)
	case v.redirect != "":
		http.Redirect(w, r, h.cfg.BasePath+v.redirect, http.StatusSeeOther)
	default:
		h.render(w, r, http.StatusOK, v)
	}
}
