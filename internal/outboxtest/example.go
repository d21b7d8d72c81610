package outboxtest

import (
	"fmt"
	"slices"
	"testing"
)

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
