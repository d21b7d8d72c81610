// Package ui is the web page of an outbox: an http.Handler that shows what waits, what is dead and
// why, with the words, filters and figures of the command line.
//
// What it guarantees:
//
//   - Looking only reads: it is one read-only transaction under the role of a viewer, who cannot see what events carry.
//   - Changing exists only where Config.AllowChanges says so, for operators, and is always a plan in the database that
//     is confirmed on the server. It happens in the process, not in a request, and another can resume it.
//   - Pages work without JavaScript and ask no other host for anything.
//   - Figures of the whole outbox come from one snapshot per process, however many look.
//   - Stored text is harmless: control characters are made visible, and everything is escaped by html/template.
package ui
