package cmd

import (
	"context"
	"errors"
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
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		select {
		case sig := <-signals:
			// From here on a second signal ends the process by the operating system's default action.
			signal.Stop(signals)
			cancel(signalError(sig.(syscall.Signal)))
		case <-ctx.Done():
		}
	}()
	code := Run(ctx, args, streams, environ)
	if sig, caught := errors.AsType[signalError](context.Cause(ctx)); caught {
		return cli.ExitSignalBase + int(sig)
	}
	return code
}

type signalError syscall.Signal

func (e signalError) Error() string { return "stopped by " + syscall.Signal(e).String() }

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

// WriteReference writes what is generated from the command tree and kept in git below dir.
func WriteReference(dir string) error { return cli.WriteReference(dir, silentRoot()) }

// WriteManPages writes the man pages of a release into dir.
func WriteManPages(dir string) error { return cli.WriteManPages(dir, silentRoot()) }

func silentRoot() *cobra.Command {
	app := cli.NewApp(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, nil)
	app.Build = buildVersion()
	return newRootCmd(app)
}
