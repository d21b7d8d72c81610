// Package safetext makes text from outside safe to keep and safe to show.
//
// Payloads, broker errors and database errors may hold terminal escape sequences, bidirectional
// overrides, broken UTF-8 and credentials. Everything untrusted passes through one of these functions
// before it reaches a terminal, a log or the database:
//
//   - Line and Block show text on a terminal: control characters become visible and inert.
//   - JSON escapes, inside an encoded JSON document, what a terminal would interpret.
//   - QuoteWord keeps a shell from reading more than a word in a command that is offered for pasting.
//   - Redact removes passwords from connection strings inside any text; URL from one connection string.
//   - Cut shortens text on a rune boundary. Stored is what an error column gets: Redact, then Cut.
package safetext
