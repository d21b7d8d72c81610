package outboxtest

import (
	"fmt"
	"os"
	"slices"
	"syscall"
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

// example stands for the test that an example does not have.
type example struct {
	testing.TB
	cleanups []func()
}

func (*example) Helper()                           {}
func (*example) Name() string                      { return "Example" }
func (e *example) Cleanup(f func())                { e.cleanups = append(e.cleanups, f) }
func (*example) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*example) FailNow()                          { panic("failed") }

// Example opens what an example needs, with a function of this package that wants a test. The
// function that it returns ends it.
func Example[T any](open func(testing.TB) T) (T, func()) {
	e := &example{}
	return open(e), func() {
		for _, f := range slices.Backward(e.cleanups) {
			f()
		}
	}
}

// memoryRoom is free space that the servers of a whole suite never need; a container's own /dev/shm
// has less.
const memoryRoom = 4 << 30

// TempDir returns the folder in which servers keep their files: one in memory where there is room.
// Most of the work of making and dropping a database is making and removing three hundred files.
// TMPDIR, when set, decides alone.
func TempDir() string {
	const memory = "/dev/shm"
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memory, &fs) != nil ||
		fs.Bavail*uint64(fs.Bsize) < memoryRoom || syscall.Access(memory, 0b010) != nil {
		return os.TempDir()
	}
	return memory
}
