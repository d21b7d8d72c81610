package ui

import (
	"slices"
	"strings"
	"time"
)

// APIPaths are the addresses of the API, below /api/v1, each after its method.
func APIPaths() []string {
	var paths []string
	for _, r := range (&Handler{}).table() {
		if r.api != nil {
			paths = append(paths, "get "+r.path)
		}
	}
	for _, r := range allChanges() {
		method, path, _ := strings.Cut(r.api, " /api/v1")
		paths = append(paths, strings.ToLower(method)+" "+path)
	}
	slices.Sort(paths)
	return paths
}

// PagePaths are the addresses of the pages.
func PagePaths() []string {
	var paths []string
	for _, r := range (&Handler{}).table() {
		if r.page != nil {
			paths = append(paths, r.path)
		}
	}
	return paths
}

// ChangePaths are the addresses that change something, each after its method.
func ChangePaths() []string {
	var paths []string
	for _, r := range allChanges() {
		paths = append(paths, "POST "+r.path, r.api)
	}
	return paths
}

// DeadLetterNames, EventNames and AuditNames are the filters of the lists.
func DeadLetterNames() []string { return deadLetterNames() }
func EventNames() []string      { return eventNames() }
func AuditNames() []string      { return auditNames() }

// Occupy takes every turn to read, as many slow requests would.
func (h *Handler) Occupy() {
	for range cap(h.turns) {
		h.turns <- struct{}{}
	}
}

// Looked is when a viewer was last seen.
func (h *Handler) Looked() time.Time {
	h.snapshots.mu.Lock()
	defer h.snapshots.mu.Unlock()
	return h.snapshots.looked
}

// LookAt makes a request look at so many rows only in search of an error.
func (h *Handler) LookAt(rows int) { h.searchRows = rows }

func allChanges() []changeRoute {
	return (&Handler{}).changeRoutes()
}

// Described is the description of the API that is served.
func Described() ([]byte, error) { return described() }
