// Package score measures what docs/proof/scoreboard.md says: one scenario for each row, each in a
// world of its own with real servers and real processes, and a figure held against a target.
//
// A figure that misses its target is written down as short; it fails nothing, since the machine may
// be busy. An event lost, doubled without a cause, or deleted wrongly is another matter: that fails
// the run.
package score
