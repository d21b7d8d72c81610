package ui

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// A route is one address: a page, or an answer of the API.
type route struct {
	path string
	page func(*request) (*view, error)
	api  func(*request) (answer, error)
	// still routes show figures of the snapshot only: they need no database, and answer while it is away.
	still bool
	// fresh routes show what was just changed here, which a replica may not have yet.
	fresh bool
	// menu is the page's name in the menu, with the letter that opens it behind g; empty: it is not there.
	// beside is the figure that stands there.
	menu, key string
	beside    func(snapshot) string
}

// table is every address besides the assets and the API's description.
func (h *Handler) table() []route {
	return []route{
		{path: "/{$}", page: overviewPage, still: true, menu: "Overview", key: "o"},
		{path: "/causes", page: causesPage, still: true, menu: "Causes", key: "c", beside: openCauses},
		{path: "/dead-letters", page: deadLettersPage, menu: "Dead letters", key: "d", beside: openLetters},
		{path: "/dead-letters/{id}", page: deadLetterPage},
		{path: "/events", page: eventsPage, menu: "Events", key: "e", beside: waitingEvents},
		{path: "/events/{id}", page: eventPage},
		{path: "/ordering-keys", page: lanePage},
		{path: "/plans/{id}", page: planPage, fresh: true},
		{path: "/plans", page: plansPage, fresh: true, menu: "Plans", key: "p", beside: plansUnderWay},
		{path: "/topics", page: topicsPage, still: true, menu: "Topics", key: "t"},
		{path: "/publishers", page: publishersPage, still: true, menu: "Publishers", key: "b"},
		{path: "/consumers", page: consumersPage, menu: "Consumers", key: "u", beside: failingConsumers},
		{path: "/history", page: historyPage, menu: "History", key: "i"},
		{path: "/catalogue", page: cataloguePage, menu: "Catalogue", key: "l"},
		{path: "/catalogue/{type}", page: typePage},
		{path: "/audit", page: auditPage, menu: "Audit", key: "a"},
		{path: "/audit/{run}", page: auditRunPage},
		{path: "/doctor", page: doctorPage, still: true, menu: "Doctor", key: "h"},
		{path: "/settings", page: settingsPage, still: true, menu: "Settings", key: "s"},
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
		{path: "/api/v1/consumers", api: consumerListAPI},
		{path: "/api/v1/consumers/failures", api: failuresAPI},
		{path: "/api/v1/ordering-keys", api: laneAPI},
		{path: "/api/v1/registry", api: registryAPI, still: true},
		{path: "/api/v1/registry/{type}", api: typeAPI},
		{path: "/api/v1/publishers", api: publishersAPI, still: true},
		{path: "/api/v1/topics", api: topicsAPI, still: true},
		{path: "/api/v1/doctor", api: doctorAPI, still: true},
		{path: "/api/v1/config", api: configAPI, still: true},
		{path: "/api/v1/history", api: historyAPI},
		{path: "/api/v1/audit", api: auditAPI},
		{path: "/api/v1/audit/{run}", api: auditRunAPI},
		{path: "/api/v1/plans", api: plansAPI, fresh: true},
		{path: "/api/v1/plans/{id}", api: planAPI, fresh: true},
	}
}

// entry is a line of the menu.
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
	for _, r := range h.table() {
		if r.page != nil {
			mux.HandleFunc("GET "+r.path, func(w http.ResponseWriter, req *http.Request) { h.servePage(w, req, r) })
			mux.HandleFunc("GET /parts"+r.path, func(w http.ResponseWriter, req *http.Request) { h.servePart(w, req, r) })
		} else {
			mux.HandleFunc("GET "+r.path, func(w http.ResponseWriter, req *http.Request) { h.serveAPI(w, req, r) })
		}
	}
	for _, c := range h.changeRoutes() {
		serve := func(w http.ResponseWriter, req *http.Request) { h.serveChange(w, req, c.do) }
		mux.HandleFunc("POST "+c.path, serve)
		mux.HandleFunc(c.api, serve)
	}
	if h.cfg.Leave != nil {
		mux.HandleFunc("POST /sign-out", h.serveSignOut)
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
	mux.HandleFunc("GET /favicon.ico", h.serveIcon)
	closed := http.NewServeMux() // what would change something: it does not exist where it is not allowed
	for _, c := range (&Handler{cfg: Config{AllowChanges: true, Payloads: PayloadsReveal}}).changeRoutes() {
		closed.Handle("POST "+c.path, http.NotFoundHandler())
		closed.Handle(c.api, http.NotFoundHandler())
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, change := closed.Handler(r)
		allowed := methods(mux, r)
		switch {
		case change == "" && allowed != nil:
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			err := fault.Usagef("%s is not what this address takes: %s", r.Method, strings.Join(allowed, ", "))
			h.fail(w, r, statusError{http.StatusMethodNotAllowed, err})
		case isAPI(r):
			h.fail(w, r, fault.NotFoundf("no such address: %s %s", r.Method, r.URL.Path))
		default:
			h.fail(w, r, fault.NotFoundf("there is no page at this address"))
		}
	})
	return mux
}

// methods are those that an address answers.
func methods(mux *http.ServeMux, r *http.Request) (allowed []string) {
	other := r.Clone(r.Context())
	for _, other.Method = range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if _, pattern := mux.Handler(other); pattern != "" && pattern != "/" {
			allowed = append(allowed, other.Method)
		}
	}
	return allowed
}
