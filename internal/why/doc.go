// Package why tells what is known about one event: which one an id or a key means, its detail and
// history, and where it is and why. It joins what the packages of events, dead letters, consumers
// and publishers know.
package why
