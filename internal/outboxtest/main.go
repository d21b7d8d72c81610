package outboxtest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests, stops the servers they used and checks that no goroutine was left behind. It
// ends the process.
func Main(m *testing.M, options ...goleak.Option) { os.Exit(Run(m, options...)) }

// Run is Main for a package whose TestMain has more to do: it returns the exit code.
func Run(m interface{ Run() int }, options ...goleak.Option) int {
	shared.open()
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "outboxtest:", err)
		code = max(code, 1)
	}
	// After a failed test a leak is noise: t.FailNow skips what would have stopped the goroutine.
	if code != 0 {
		return code
	}
	if err := goleak.Find(options...); err != nil {
		fmt.Fprintln(os.Stderr, "outboxtest:", err)
		return 1
	}
	return 0
}
