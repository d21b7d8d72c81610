package ui

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// A route is the address of a page.
type route struct {
	path string
	page func(*request) (*view, error)
	// takes are the names that its query may have: a typing error must not widen a set. nil: any.
	takes []string
	// form pages are asked for by a form, which sends every field it has, also empty ones.
	form bool
	// still routes need no database, and answer while it is away.
	still bool
	// fresh routes show what was just changed here, which a replica may not have yet.
	fresh bool
	// menu is the page's name in the menu, key the letter that opens it behind g.
	menu, key string
	beside    func(snapshot) string
}

// table is every page.
func (h *Handler) table() []route {
	none, plans, audit := []string{}, listNames(nil), listNames(auditNames())
	letters, events := listNames(deadLetterNames()), listNames(eventNames())
	failures, history := []string{"consumer", "state", "type", "namespace", "tenant"}, []string{"span", "topic", "type"}
	return []route{
		{path: "/{$}", page: overviewPage, takes: none, still: true, menu: "Overview", key: "o"},
		{path: "/causes", page: causesPage, takes: []string{"by"}, form: true, still: true, menu: "Causes", key: "c", beside: openCauses},
		{
			path: "/dead-letters", page: deadLettersPage, takes: letters, form: true,
			menu: "Dead letters", key: "d", beside: openLetters,
		},
		{path: "/dead-letters/{id}", page: deadLetterPage},
		{
			path: "/events", page: eventsPage, takes: events, form: true,
			menu: "Events", key: "e", beside: waitingEvents,
		},
		{path: "/events/{id}", page: eventPage},
		{path: "/ordering-keys", page: lanePage, takes: []string{"key"}},
		{path: "/plans/{id}", page: planPage, takes: []string{confirmedBefore}, fresh: true},
		{path: "/plans", page: plansPage, takes: plans, fresh: true, menu: "Plans", key: "p", beside: plansUnderWay},
		{path: "/topics", page: topicsPage, takes: none, still: true, menu: "Topics", key: "t"},
		{path: "/publishers", page: publishersPage, takes: none, still: true, menu: "Publishers", key: "b"},
		{path: "/consumers", page: consumersPage, takes: failures, menu: "Consumers", key: "u", beside: failingConsumers},
		{path: "/history", page: historyPage, takes: history, form: true, menu: "History", key: "i"},
		{path: "/catalogue", page: cataloguePage, takes: none, menu: "Catalogue", key: "l"},
		{path: "/catalogue/{type}", page: typePage, takes: []string{"namespace"}},
		{path: "/audit", page: auditPage, takes: audit, form: true, menu: "Audit", key: "a"},
		{path: "/audit/{run}", page: auditRunPage, takes: none},
		{path: "/doctor", page: doctorPage, takes: []string{"again"}, still: true, menu: "Doctor", key: "h"},
		{path: "/settings", page: settingsPage, takes: none, still: true, menu: "Settings", key: "s"},
		{path: "/search", page: searchPage, takes: []string{"q"}},
	}
}

type entry struct {
	Path, Name, Key, Beside string
	Current                 bool
}

// menu is the pages of the menu. The one that is looked at is the first part of its address.
func (h *Handler) menu(at string, s snapshot) (entries []entry) {
	at, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(at, "/parts"), "/"), "/")
	for _, r := range h.table() {
		if r.menu == "" {
			continue
		}
		e := entry{Path: strings.TrimSuffix(r.path, "{$}"), Name: r.menu, Key: r.key}
		if e.Current = e.Path == "/"+at; r.beside != nil {
			e.Beside = r.beside(s)
		}
		entries = append(entries, e)
	}
	return entries
}

// figure is the text of a figure that is known once there are figures.
func figure(s snapshot, n func() int) string {
	if s.Stats == nil {
		return ""
	}
	return words.Count(int64(n()))
}

func openCauses(s snapshot) string {
	return figure(s, func() int { return len(s.Causes["fingerprint"]) })
}

func openLetters(s snapshot) string { return figure(s, func() int { return int(s.Stats.DLQ.Open) }) }

func waitingEvents(s snapshot) string {
	return figure(s, func() int { return int(s.Stats.Backlog + s.Stats.Parked) })
}

func plansUnderWay(s snapshot) string {
	if len(s.Running) == 0 {
		return ""
	}
	return words.Count(int64(len(s.Running)))
}

func (h *Handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, to := range h.table() {
		mux.HandleFunc("GET "+to.path, func(w http.ResponseWriter, r *http.Request) { h.servePage(w, r, to) })
		mux.HandleFunc("GET /parts"+to.path, func(w http.ResponseWriter, r *http.Request) { h.servePart(w, r, to) })
	}
	closed := http.NewServeMux() // what would change something: it does not exist where it is not allowed
	for _, c := range h.changeRoutes() {
		to := closed
		if c.open {
			to = mux
		}
		to.HandleFunc("POST "+c.path, func(w http.ResponseWriter, r *http.Request) { h.serveChange(w, r, c) })
	}
	if h.cfg.Leave != nil {
		mux.HandleFunc("POST /sign-out", h.serveSignOut)
	}
	if h.cfg.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(h.cfg.Metrics, promhttp.HandlerOpts{}))
	}
	mux.HandleFunc("GET /parts/newer/dead-letters", h.serveNewer)
	mux.HandleFunc("GET /assets/{name}", h.serveAsset)
	mux.HandleFunc("GET /favicon.ico", h.serveIcon)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, change := closed.Handler(r)
		allowed := methods(mux, r)
		if change == "" && allowed != nil {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			err := fault.Usagef("%s is not what this address takes: %s", r.Method, strings.Join(allowed, ", "))
			h.fail(w, r, statusError{http.StatusMethodNotAllowed, err})
			return
		}
		h.fail(w, r, fault.NotFoundf("there is no page at this address"))
	})
	return mux
}

// methods are those that an address answers.
func methods(mux *http.ServeMux, r *http.Request) (allowed []string) {
	other := r.Clone(r.Context())
	for _, other.Method = range []string{http.MethodGet, http.MethodPost} {
		if _, pattern := mux.Handler(other); pattern != "" && pattern != "/" {
			allowed = append(allowed, other.Method)
		}
	}
	return allowed
}
