package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs one command line to its end and returns the process's exit code. The first SIGINT or SIGTERM cancels the
// command's context so that it can stop cleanly; a second one meets the default action and ends the process at once.
func Main(args []string, streams Streams, environ []string) int {
	ctx, caught, stop := notifySignals(context.Background())
	defer stop()
	code := Run(ctx, args, streams, environ)
	if sig := caught(); sig != 0 {
		return exitSignalBase + int(sig)
	}
	return code
}

// Run is Main without the process: no signals, and nothing taken from the operating system but what is passed in.
func Run(ctx context.Context, args []string, streams Streams, environ []string) int {
	app := newApp(streams, environ)
	root := newRootCmd(app)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)

	err := root.ExecuteContext(ctx)
	if closeErr := app.Close(); err == nil && closeErr != nil {
		err = &commandError{closeErr}
	}
	if err == nil || (errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		return exitOK
	}
	app.report(err)
	return exitCode(err)
}

// notifySignals returns a context that the first SIGINT or SIGTERM cancels, and a function that tells which signal
// it was (zero: none).
func notifySignals(parent context.Context) (ctx context.Context, caught func() syscall.Signal, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-signals:
			// From here on a second signal ends the process by the operating system's default action.
			signal.Stop(signals)
			cancel(signalError{sig.(syscall.Signal)})
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	caught = func() syscall.Signal {
		var se signalError
		if errors.As(context.Cause(ctx), &se) {
			return se.signal
		}
		return 0
	}
	return ctx, caught, func() { cancel(context.Canceled) }
}

type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return fmt.Sprintf("stopped by %s", e.signal) }
