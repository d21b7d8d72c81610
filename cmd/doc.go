// Package cmd is the command line, and the only place where the internal packages meet: a file for
// each command or group of commands. A command is an options struct, a constructor that binds flags
// to it, and a run function that knows nothing of cobra, so that a test can call it without a
// command line. Data goes to the output stream and talk to the error stream; only main exits.
package cmd
