package ui

import "time"

// PagePaths are the addresses of the pages.
func PagePaths() []string {
	var paths []string
	for _, r := range (&Handler{}).table() {
		paths = append(paths, r.path)
	}
	return paths
}

// ChangePaths are the addresses of the forms that change something.
func ChangePaths() []string {
	var paths []string
	for _, r := range (&Handler{}).changeRoutes() {
		paths = append(paths, r.path)
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
