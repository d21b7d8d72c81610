package cmd

import (
	"context"
	"net/http"
	"regexp"
	"strings"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/ui"
)

// openPages is one page or, with names, one for each context. process has what they share.
func openPages(ctx context.Context, app, process *cli.App, cfg *cli.Config, names []string) ([]ui.Config, error) {
	if names == nil {
		page, err := openPage(ctx, process, cfg)
		return []ui.Config{page}, err
	}
	var all []ui.Context
	base := strings.TrimRight(cfg.UI.BasePath, "/")
	for _, name := range names {
		if !regexp.MustCompile(`^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$`).MatchString(name) {
			return nil, fault.Usagef("context %q: its name is a part of the page's addresses and may have letters, digits, and . _ - only", name)
		}
		all = append(all, ui.Context{Name: name, Path: base + "/" + name})
	}
	var pages []ui.Config
	for i, name := range names {
		sub := app.InContext(name)
		app.OnClose(sub.Close)
		own, err := sub.Config("database.url")
		if err != nil {
			return nil, fault.Reword(err, "context %s: %v", name, err)
		}
		if own.ReadOnly() {
			own = lookingOnly(sub, own)
		}
		// What may be done is agreed on for the process: a context only takes from it.
		own.UI.AllowChanges = own.UI.AllowChanges && cfg.UI.AllowChanges
		if !cfg.UI.Reveals() {
			own.UI.Payloads = ""
		}
		page, err := openPage(ctx, sub, own)
		if err != nil {
			return nil, fault.Reword(err, "context %s: %v", name, err)
		}
		page.BasePath, page.Contexts, page.Context = all[i].Path, all, name
		pages = append(pages, page)
	}
	return pages, nil
}

// contextSwitch serves the pages of several contexts, each under its path.
type contextSwitch struct {
	base     string
	pages    []ui.Config
	handlers []*ui.Handler
	enter    func(http.ResponseWriter, *http.Request) bool
}

func newContextSwitch(base string, pages []ui.Config, handlers []*ui.Handler, enter func(http.ResponseWriter, *http.Request) bool) *contextSwitch {
	return &contextSwitch{base: strings.TrimRight(base, "/"), pages: pages, handlers: handlers, enter: enter}
}

// ServeHTTP implements http.Handler. A proxy may have taken the base path off, or not.
func (s *contextSwitch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if s.base != "" && (path == s.base || strings.HasPrefix(path, s.base+"/")) {
		path = strings.TrimPrefix(path, s.base)
	}
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = path, ""
	for i, page := range s.pages {
		if rest, own := strings.CutPrefix(path, "/"+page.Context); own && (rest == "" || rest[0] == '/') {
			r.URL.Path = page.BasePath + rest
			s.handlers[i].ServeHTTP(w, r)
			return
		}
	}
	switch path {
	case "/readyz":
		s.serveReady(w, r)
	case "", "/":
		if r.URL.Path = "/"; s.enter != nil && s.enter(w, r) {
			return
		}
		http.Redirect(w, r, s.pages[0].BasePath+"/", http.StatusSeeOther)
	default: // it has no such page, and answers /healthz and what is wrong with a request
		s.handlers[0].ServeHTTP(w, r)
	}
}

// serveReady answers as the first page that is ready, or as the last one.
func (s *contextSwitch) serveReady(w http.ResponseWriter, r *http.Request) {
	for i, handler := range s.handlers {
		answer := &heldAnswer{ResponseWriter: w, last: i == len(s.handlers)-1}
		if handler.ServeHTTP(answer, r); answer.passed {
			return
		}
	}
}

// heldAnswer passes on a good answer, or the last one.
type heldAnswer struct {
	http.ResponseWriter
	last, passed bool
}

func (a *heldAnswer) WriteHeader(status int) {
	if a.passed = status < http.StatusBadRequest || a.last; a.passed {
		a.ResponseWriter.WriteHeader(status)
	}
}

func (a *heldAnswer) Write(body []byte) (int, error) {
	if !a.passed {
		return len(body), nil
	}
	return a.ResponseWriter.Write(body)
}
