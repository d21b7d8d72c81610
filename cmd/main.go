package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// Main runs one command line to its end and returns the process's exit code. The first SIGINT or
// SIGTERM cancels the command's context so that it can stop cleanly; a second one meets the default
// action and ends the process at once.
func Main(args []string, streams cli.Streams, environ []string) int {
	cli.DropWidths()
	ctx, caught, stop := notifySignals(context.Background())
	defer stop()
	code := Run(ctx, args, streams, environ)
	if sig := caught(); sig != 0 {
		return cli.ExitSignalBase + int(sig)
	}
	return code
}

// Run is Main without the process: no signals, and nothing taken from the operating system but what
// is passed in.
func Run(ctx context.Context, args []string, streams cli.Streams, environ []string) int {
	app := cli.NewApp(streams, environ)
	app.Build = buildVersion()
	app.Completing = len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
	root := newRootCmd(app)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)

	err := root.ExecuteContext(ctx)
	if closeErr := app.Close(); err == nil && closeErr != nil {
		err = cli.Ran(closeErr)
	}
	if err == nil || (errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		return cli.ExitOK
	}
	app.Report(err)
	return cli.ExitCode(err)
}

// notifySignals returns a context that the first SIGINT or SIGTERM cancels, and a function that
// tells which signal it was (zero: none).
func notifySignals(parent context.Context) (ctx context.Context, caught func() syscall.Signal,
	stop func()) {
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

// WriteReference writes everything that is generated from the command tree below dir.
func WriteReference(dir string) error {
	app := cli.NewApp(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, nil)
	app.Build = buildVersion()
	return cli.WriteReference(dir, newRootCmd(app))
}
