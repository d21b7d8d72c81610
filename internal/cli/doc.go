// Package cli is what every command shares: streams, configuration, connections, output formats,
// prompts, progress, completion and exit codes. It decides nothing about the outbox; that is what
// the packages of its subjects do.
//
// Data goes to Out, talk goes to Err. Connections are opened when a command first asks for them.
// All text that came from outside is made safe before it reaches a terminal.
package cli
