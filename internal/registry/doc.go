// Package registry finds the catalogue of event types that the program works with: the
// built-in one, one from a file, or the one that a database recorded. Package catalogue
// says what a catalogue is.
package registry
