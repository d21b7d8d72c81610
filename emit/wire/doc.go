// Package wire is the format of events between outboxctl, its emitters and its consumers: the
// envelope in a message's body, the attributes beside it, how ids and times are written, and the
// limits that a broker sets. Each of these is declared here and nowhere else.
package wire
