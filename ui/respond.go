package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// fail answers with a page that names the error.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = fault.Database(err)
	if to, ok := errors.AsType[elsewhere](err); ok {
		http.Redirect(w, r, string(to), http.StatusPermanentRedirect)
		return
	}
	status := statusOf(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", h.cfg.Challenge)
	}
	broken := status >= http.StatusInternalServerError
	if broken || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "5")
	}
	if broken && r.Context().Err() == nil { // the caller has not gone
		h.cfg.Log(r.URL.Path, err)
	}
	h.render(w, r, status, &view{Title: errorTitle(r.Method, status), template: "error", Data: map[string]string{
		"Text": safetext.Redact(err.Error()), "Hint": fault.HintOf(err), "Back": backOf(r),
	}})
}

func errorTitle(method string, status int) string {
	title := map[int]string{
		http.StatusNotFound: "Not found", http.StatusServiceUnavailable: "The database does not answer", http.StatusUnauthorized: "Sign in",
		http.StatusTooManyRequests: "Try again in a moment", http.StatusForbidden: "Not allowed",
	}[status]
	switch {
	case title != "":
		return title
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

// render writes a page. It is made whole before its first byte is sent. A caller that was not
// identified gets no figure and no name, and is no viewer for whom figures are gathered.
func (h *Handler) render(w http.ResponseWriter, r *http.Request, status int, v *view) {
	_, v.Known = r.Context().Value(whoKey{}).(Identity)
	v.Label, v.Color, v.Place, v.Version, v.Who, v.Query = h.cfg.Label, h.cfg.Color, h.place, h.cfg.Version, whoOf(r).Name, r.URL.Query().Get("q")
	if v.Snapshot = h.snapshots.peek(); v.Known {
		v.Snapshot = h.snapshots.current()
	}
	v.Menu = h.menu(r.URL.Path, v.Snapshot)
	v.OwnRights = h.reader.own.Load()
	if v.OwnRights && h.reader.role != OwnRights {
		v.NoRights = h.reader.role
	}
	v.Notice = whyOld(v.Snapshot)
	if v.Every == 0 {
		v.Every = max(h.cfg.Refresh, shortestPoll).Milliseconds()
	}
	operator := whoOf(r).Role == Operator && v.Snapshot.Err == nil
	v.Changes = h.cfg.AllowChanges
	v.MayChange, v.MayReveal = v.Changes && operator, h.cfg.Payloads == PayloadsReveal && operator
	v.MayEdit, v.Leaves = v.MayChange && v.MayReveal, h.cfg.Leave != nil && v.Known
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
