package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Must returns v. An error ends what Carry runs.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Check ends what Carry runs when there is an error.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

type failure struct{ error }

// Carry runs the steps of a scenario on this goroutine and returns the error that Must or Check
// ended them with.
func Carry(steps func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			f, ours := v.(failure)
			if !ours {
				panic(v)
			}
			err = f.error
		}
	}()
	steps()
	return nil
}

// Main runs a laboratory's program until it is done or told to end, and returns its exit code. What
// it runs may be steps.
func Main(run func(ctx context.Context, args []string, out, talk io.Writer) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Carry(func() { Check(run(ctx, os.Args[1:], os.Stdout, os.Stderr)) })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}
