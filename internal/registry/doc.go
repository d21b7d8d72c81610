// Package registry holds the catalogues of event types that the program works with.
// A catalogue names, for each event type, the aggregate the event belongs to, the
// logical topic it is published on and the payload it carries.
//
// There is one catalogue today, the built-in one of emit/builtin.
package registry
