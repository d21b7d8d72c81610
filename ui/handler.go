package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/safetext"
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
	turns chan struct{}
	// changes is nil where nothing can be changed or revealed.
	changes   *changes
	examiner  *examiner
	templates map[string]*template.Template
	mux       *http.ServeMux
	// served is answer, compressed and counted.
	served  http.Handler
	stop    context.CancelFunc
	stopped chan struct{}
}

// Shutdown ends what the page does beside answering requests. A run finishes the rows it is at and can be resumed.
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

// A route is one address: a page, or an answer of the API.
type route struct {
	path string
	page func(*request) (*view, error)
	api  func(*request) (answer, error)
	// still routes show figures of the snapshot only: they need no database, and answer while it is away.
	still bool
	// fresh routes show what was just changed here, which a replica may not have yet.
	fresh bool
}

// table is every address besides the assets and the API's description.
func (h *Handler) table() []route {
	return []route{
		{path: "/{$}", page: overviewPage, still: true},
		{path: "/causes", page: causesPage, still: true},
		{path: "/dead-letters", page: deadLettersPage},
		{path: "/dead-letters/{id}", page: deadLetterPage},
		{path: "/events", page: eventsPage},
		{path: "/events/{id}", page: eventPage},
		{path: "/plans/{id}", page: planPage, fresh: true},
		{path: "/runs", page: runsPage, fresh: true},
		{path: "/runs/{id}", page: runPage, fresh: true},
		{path: "/topics", page: topicsPage, still: true},
		{path: "/audit", page: auditPage},
		{path: "/doctor", page: doctorPage, still: true},
		{path: "/settings", page: settingsPage, still: true},
		{path: "/search", page: searchPage},
		{path: "/api/v1/me", api: meAPI, still: true},
		{path: "/api/v1/stats", api: statsAPI, still: true},
		{path: "/api/v1/causes", api: causesAPI, still: true},
		{path: "/api/v1/dead-letters", api: deadLettersAPI},
		{path: "/api/v1/dead-letters/{id}", api: deadLetterAPI},
		{path: "/api/v1/events", api: eventsAPI},
		{path: "/api/v1/events/{id}", api: eventAPI},
		{path: "/api/v1/events/{id}/why", api: whyAPI},
		{path: "/api/v1/events/{id}/consumers", api: consumersAPI},
		{path: "/api/v1/registry", api: registryAPI, still: true},
		{path: "/api/v1/publishers", api: publishersAPI, still: true},
		{path: "/api/v1/topics", api: topicsAPI, still: true},
		{path: "/api/v1/doctor", api: doctorAPI, still: true},
		{path: "/api/v1/config", api: configAPI, still: true},
		{path: "/api/v1/audit", api: auditAPI},
		{path: "/api/v1/plans", api: plansAPI, fresh: true},
		{path: "/api/v1/plans/{id}", api: planAPI, fresh: true},
		{path: "/api/v1/runs", api: runsAPI, fresh: true},
		{path: "/api/v1/runs/{id}", api: planAPI, fresh: true},
	}
}

func (h *Handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range h.table() {
		if r.page != nil {
			mux.HandleFunc("GET "+r.path, func(w http.ResponseWriter, req *http.Request) { h.servePage(w, req, r) })
			mux.HandleFunc("GET /parts"+r.path, func(w http.ResponseWriter, req *http.Request) { h.servePart(w, req, r) })
		} else {
			mux.HandleFunc("GET "+r.path, func(w http.ResponseWriter, req *http.Request) { h.serveAPI(w, req, r) })
		}
	}
	for _, c := range h.changeRoutes() {
		mux.HandleFunc(c.method+" "+c.path, func(w http.ResponseWriter, req *http.Request) { h.serveChange(w, req, c.do) })
	}
	mux.HandleFunc("GET /api/v1/openapi.json", h.serveOpenAPI)
	if h.cfg.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(h.cfg.Metrics, promhttp.HandlerOpts{}))
	}
	mux.HandleFunc("GET /parts/newer/dead-letters", h.serveNewer)
	for path, read := range exports() {
		mux.HandleFunc("GET /export"+path, func(w http.ResponseWriter, req *http.Request) { h.serveExport(w, req, path, read) })
	}
	mux.HandleFunc("GET /assets/{name}", h.serveAsset)
	mux.HandleFunc("GET /favicon.ico", serveIcon)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, fault.NotFoundf("no such address: %s %s", r.Method, r.URL.Path))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, fault.NotFoundf("there is no page at this address"))
	})
	return mux
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

// readable refuses an address that would be read as another one: of a query with a semicolon or half an escape the broken part
// would be left out, and a filter with it; and a path with // or .. would lead to an address without the base path.
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

// whoOf is who makes a request; nobody before they were identified.
func whoOf(r *http.Request) Identity {
	who, _ := r.Context().Value(whoKey{}).(Identity)
	return who
}

// serveReady tells whether figures come in; what is wrong is for those who are signed in.
func (h *Handler) serveReady(w http.ResponseWriter) {
	if s := h.snapshots.current(); s.Stats == nil || s.Err != nil {
		writeText(w, http.StatusServiceUnavailable, "not ready\n")
		return
	}
	writeText(w, http.StatusOK, "ok\n")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, text) // nobody is left to tell
}

// request is one request, and the outbox as it reads it.
type request struct {
	*http.Request
	h        *Handler
	outbox   *operate.Outbox
	snapshot snapshot
}

// with answers a request inside one read-only transaction, or without the database when the route is still.
func (h *Handler) with(r *http.Request, to route, do func(*request) error) error {
	req := &request{Request: r, h: h, snapshot: h.snapshots.current()}
	if to.still {
		req.outbox = &operate.Outbox{Registry: h.reader.types.Load()}
		return do(req)
	}
	if err := h.turn(r.Context()); err != nil {
		return err
	}
	defer func() { <-h.turns }()
	pool := h.cfg.ReadPool
	if to.fresh && h.elsewhere {
		pool = h.cfg.Pool
	}
	return h.reader.doOn(r.Context(), pool, func(o *operate.Outbox) error {
		req.outbox = o
		return do(req)
	})
}

// turn waits until a request may read, no longer than a statement may take: who comes with many others is told to come again
// instead of waiting behind all of them.
func (h *Handler) turn(ctx context.Context) error {
	wait := time.NewTimer(h.cfg.QueryTimeout)
	defer wait.Stop()
	select {
	case h.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return busy("too many requests wait for the database")
	}
}

func (h *Handler) servePage(w http.ResponseWriter, r *http.Request, to route) {
	var v *view
	err := h.with(r, to, func(req *request) (err error) {
		v, err = to.page(req)
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

// fail answers with an error, as a page or as a problem document.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	var to elsewhere
	if errors.As(err, &to) {
		http.Redirect(w, r, string(to), http.StatusPermanentRedirect)
		return
	}
	status := statusOf(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", h.cfg.Challenge)
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "5")
	}
	if status >= http.StatusInternalServerError {
		if r.Context().Err() == nil { // who asked has not gone
			h.cfg.Log(r.URL.Path, err)
		}
		w.Header().Set("Retry-After", "5")
	}
	if isAPI(r) {
		writeProblem(w, status, err)
		return
	}
	h.render(w, r, status, &view{Title: errorTitle(r.Method, status), template: "error", Data: map[string]string{
		"Text": safetext.Redact(err.Error()), "Hint": fault.HintOf(err), "Back": backOf(r),
	}})
}

func isAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }

func errorTitle(method string, status int) string {
	switch {
	case status == http.StatusNotFound:
		return "Not found"
	case status == http.StatusServiceUnavailable:
		return "The database does not answer"
	case status == http.StatusUnauthorized:
		return "Sign in"
	case status == http.StatusTooManyRequests:
		return "Try again in a moment"
	case status == http.StatusForbidden:
		return "Not allowed"
	case method != http.MethodGet:
		return "Nothing was changed"
	case status == http.StatusBadRequest:
		return "This address cannot be read"
	default:
		return "This cannot be shown"
	}
}

// backOf is the page whose form was refused: that of the plan, run or topics, or the one before.
func backOf(r *http.Request) string {
	if r.Method == http.MethodGet {
		return ""
	}
	switch parts := strings.Split(r.URL.Path, "/"); {
	case strings.HasPrefix(r.URL.Path, "/topics/"):
		return "/topics"
	case len(parts) == 4:
		return "/" + parts[1] + "/" + url.PathEscape(parts[2])
	}
	return "/dead-letters"
}

// render writes a page. It is made whole before its first byte is sent. Who was not identified gets no figure and no name.
func (h *Handler) render(w http.ResponseWriter, r *http.Request, status int, v *view) {
	_, v.Known = r.Context().Value(whoKey{}).(Identity)
	v.Label, v.Color, v.Place, v.Version, v.Who, v.Query = h.cfg.Label, h.cfg.Color, h.place, h.cfg.Version, whoOf(r).Name, r.URL.Query().Get("q")
	v.Snapshot = h.snapshots.current()
	v.OwnRights = h.reader.role == ownRights
	v.Notice = whyOld(v.Snapshot)
	if v.Every == 0 {
		v.Every = max(h.cfg.Refresh, shortestPoll).Milliseconds()
	}
	operator := whoOf(r).Role == Operator && v.Snapshot.Err == nil
	v.Changes = h.cfg.AllowChanges
	v.MayChange, v.MayReveal = v.Changes && operator, h.cfg.Payloads == PayloadsReveal && operator
	var out bytes.Buffer
	if err := h.templates[v.template].ExecuteTemplate(&out, "layout", v); err != nil {
		h.cfg.Log(r.URL.Path, fmt.Errorf("render %s: %w", v.template, err))
		writeText(w, http.StatusInternalServerError, "the page could not be made\n")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if _, err := out.WriteTo(w); err != nil && !errors.Is(err, context.Canceled) {
		h.cfg.Log(r.URL.Path, err)
	}
}
