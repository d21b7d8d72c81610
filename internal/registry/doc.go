// Package registry is the catalogue of event types as the program works with it: the built-in one,
// one from a file, or the one that a database recorded. It lists and shows types, compares
// catalogues, records one with an audit row in the same transaction, and tries one on the events
// that wait. Package catalogue says what a catalogue is; that of internal/dispatch judges the
// events.
package registry
