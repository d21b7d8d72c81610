package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

type runE = func(*cobra.Command, []string) error

func withOutbox(app *cli.App, run func(ctx context.Context, box *dlq.Outbox, args []string) error) runE {
	return func(cmd *cobra.Command, args []string) error {
		box, err := app.Outbox(cmd.Context())
		if err != nil {
			return err
		}
		return run(cmd.Context(), box, args)
	}
}

func configured(ctx context.Context, app *cli.App) (*cli.Config, *dlq.Outbox, error) {
	cfg, err := app.Config("database.url")
	if err != nil {
		return nil, nil, err
	}
	box, err := app.Outbox(ctx)
	return cfg, box, err
}

// from reads what a command shows from what it opens: the outbox, its database or the catalogue.
func from[S, T any](open func(context.Context) (S, error),
	read func(context.Context, S, []string) (T, error)) func(context.Context, []string) (T, error) {
	return func(ctx context.Context, args []string) (found T, err error) {
		source, err := open(ctx)
		if err != nil {
			return found, err
		}
		return read(ctx, source, args)
	}
}

// showing completes a command that reads one thing, and prints it as text or as an object.
func showing[T any](app *cli.App, cmd *cobra.Command, read func(ctx context.Context, args []string) (T, error),
	show func(*cli.Page, T)) *cobra.Command {
	var output cli.Output
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		found, err := read(cmd.Context(), args)
		if err != nil {
			return err
		}
		return cli.WriteObject(app, output, found, func(p *cli.Page) { show(p, found) })
	}
	cli.AddOutputFlags(cmd, &output, cli.ObjectFormats()...)
	return cmd
}

// listing completes a command that lists rows; with watched it has --watch.
func listing[T any](app *cli.App, cmd *cobra.Command, watched bool, view cli.View[T],
	read func(ctx context.Context, args []string) ([]T, error)) *cobra.Command {
	var f listFlags
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return app.Watch(cmd.Context(), f.watch, func(ctx context.Context) error {
			rows, err := read(ctx, args)
			if err != nil {
				return err
			}
			return cli.WriteList(app, f.output, view, rows)
		})
	}
	if watched {
		cli.AddWatchFlags(cmd, &f.watch)
	}
	cli.AddOutputFlags(cmd, &f.output, cli.ListFormats()...)
	return cmd
}

// doFlags are those of a command that changes one thing.
type doFlags struct {
	yes    bool
	audit  cli.AuditFlags
	output cli.Output
}

func (f *doFlags) add(cmd *cobra.Command) {
	cli.AddYesFlag(cmd, &f.yes)
	cli.AddAuditFlags(cmd, &f.audit)
	cli.AddOutputFlags(cmd, &f.output, cli.ObjectFormats()...)
}

// listFlags are those of every list: a part of it, once or again and again, in a form.
type listFlags struct {
	page   outbox.Page
	watch  cli.Watch
	output cli.Output
}

// addListFlags gives a command that lists pages its flags. after is the row that --cursor names.
func addListFlags(cmd *cobra.Command, f *listFlags, after string) {
	cli.AddPageFlags(cmd, &f.page, after)
	cli.AddWatchFlags(cmd, &f.watch)
	cli.AddOutputFlags(cmd, &f.output, cli.ListFormats()...)
}

// list is the run function of a command with these flags. check is asked before anything is opened.
func (f *listFlags) list(app *cli.App, check func() error, list func(ctx context.Context, cmd *cobra.Command, box *dlq.Outbox) error) runE {
	return func(cmd *cobra.Command, _ []string) error {
		return app.Watch(cmd.Context(), f.watch, func(ctx context.Context) error {
			if err := check(); err != nil {
				return err
			}
			box, err := app.Outbox(ctx)
			if err != nil {
				return err
			}
			return list(ctx, cmd, box)
		})
	}
}

// addFilterFlags gives a command the filters of a query, except some. what happened to the rows at
// the times of --since and --until.
func addFilterFlags(cmd *cobra.Command, q *outbox.Query, what string, except ...string) {
	flags := cmd.Flags()
	for _, f := range q.Fields() {
		if slices.Contains(except, f.Name) {
			continue
		}
		help := strings.ReplaceAll(f.Help, "%s", what)
		switch at := f.At.(type) {
		case *[]string:
			flags.StringSliceVar(at, f.Name, nil, help)
		case *bool:
			flags.BoolVar(at, f.Name, false, help)
		case *string:
			if f.Choices != nil {
				help += ": " + strings.Join(f.Choices, ", ")
			}
			flags.StringVar(at, f.Name, *at, help)
		}
	}
}

// checkFilter reports what is wrong with the filter flags, before a connection is made.
func checkFilter(app *cli.App, q *outbox.Query) error {
	_, err := q.Filter(app.Now())
	return err
}

// filterBy reads the filter flags by the database's clock, which is the one that rows are stamped
// with, and names the values that are likely misspelt.
func filterBy(ctx context.Context, app *cli.App, box *dlq.Outbox, q *outbox.Query) (outbox.Filter, error) {
	now, err := box.Now(ctx)
	if err != nil {
		return outbox.Filter{}, err
	}
	f, err := q.Filter(now)
	if err != nil {
		return f, err
	}
	notes, err := box.Misspelt(ctx, q.Names())
	for _, note := range notes {
		fmt.Fprintln(app.Err, "note:", safetext.Line(note))
	}
	return f, err
}

// either is one of two values.
func either[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// waits is the verb of a number of things that wait.
func waits(n int64) string { return either(n == 1, "waits", "wait") }
