package cmd

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

type runE = func(*cobra.Command, []string) error

// withOutbox is the run function of a command that works on the outbox.
func withOutbox(app *cli.App, run func(ctx context.Context, box *dlq.Outbox, args []string) error) runE {
	return func(cmd *cobra.Command, args []string) error {
		box, err := app.Outbox(cmd.Context())
		if err != nil {
			return err
		}
		return run(cmd.Context(), box, args)
	}
}

// configured is the configuration of an outbox, and the outbox.
func configured(ctx context.Context, app *cli.App) (*cli.Config, *dlq.Outbox, error) {
	cfg, err := app.Config("database.url")
	if err != nil {
		return nil, nil, err
	}
	box, err := app.Outbox(ctx)
	return cfg, box, err
}

// showObject is the run function of a command that reads one thing, and prints it as text or as an object.
func showObject[T any](app *cli.App, output *cli.Output, read func(ctx context.Context, args []string) (T, error),
	show func(io.Writer, T) error) runE {
	return func(cmd *cobra.Command, args []string) error {
		found, err := read(cmd.Context(), args)
		if err != nil {
			return err
		}
		return cli.WriteObject(app, *output, found, func(w io.Writer) error { return show(w, found) })
	}
}

// showOne is the run function of a command that reads what its argument names, and prints it as a page or an object.
func showOne[T any](app *cli.App, output *cli.Output, read func(context.Context, *dlq.Outbox, string) (T, error), show func(*cli.Page, T) error) runE {
	return showObject(app, output, func(ctx context.Context, args []string) (found T, err error) {
		box, err := app.Outbox(ctx)
		if err != nil {
			return found, err
		}
		return read(ctx, box, args[0])
	}, func(w io.Writer, found T) error { return show(app.Page(w), found) })
}

// listFlags are those of every list: a part of it, once or again and again, in a form.
type listFlags struct {
	page   outbox.Page
	watch  cli.Watch
	output cli.Output
}

// addListFlags gives a command that lists rows of T its flags. after is the row that --cursor names; empty: it has no pages.
func addListFlags[T any](cmd *cobra.Command, f *listFlags, after string) {
	if after != "" {
		cli.AddPageFlags(cmd, &f.page, after)
	}
	cli.AddWatchFlags(cmd, &f.watch)
	cli.AddListOutput[T](cmd, &f.output)
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
