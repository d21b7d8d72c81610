package cmd_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// untilTimeout is how long a story waits for the world to become as it says, on a busy machine.
const untilTimeout = 3 * time.Minute

// scriptStateDir gives a story a state folder for a stack of its own, and an environment in which nothing else is
// configured.
func scriptStateDir(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 0 {
			ts.Fatalf("usage: statedir")
		}
		dir := devStateDir(t)
		for _, pair := range devEnv(dir) {
			name, value, _ := strings.Cut(pair, "=")
			if name != "PATH" { // the story's own begins with the folder that holds outboxctl
				ts.Setenv(name, value)
			}
		}
	}
}

// scriptUntil runs a command again and again until it succeeds and its standard output matches. The last output stays
// for the commands that look at it. A fixed pause would be too short on one machine and too long on every other.
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND [ARGUMENT...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	deadline := time.NewTimer(untilTimeout)
	defer deadline.Stop()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline.C:
			ts.Fatalf("%s did not print %q within %s; last it printed\n%s%s(%v)",
				strings.Join(args[1:], " "), args[0], untilTimeout, ts.ReadFile("stdout"), ts.ReadFile("stderr"), err)
		}
	}
}

// scriptKeep puts the first line of the last standard output into a variable.
func scriptKeep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep VARIABLE")
	}
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	if line == "" {
		ts.Fatalf("keep %s: nothing was printed", args[0])
	}
	ts.Setenv(args[0], line)
}

// scriptShell runs a shell command line, as a person would type it: stories about pipes need one.
func scriptShell(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shell 'COMMAND LINE'")
	}
	ts.Check(ts.Exec("sh", "-euc", args[0]))
}
