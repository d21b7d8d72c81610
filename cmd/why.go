package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/why"
)

func newWhyCmd(app *cli.App) *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "why EVENT_ID",
		Args:  cobra.ExactArgs(1),
		Short: "Explain where an event is, what it waits for and what to do",
		Long: `Explain in one paragraph where an event is: waiting for its turn, backing off, being
published, held by a paused topic, dead, published, cleaned up or not in this database; and which
command acts on it. EVENT_ID may also be a dead letter's id. The exit code is 3 for an event that is
not known.`,
		Example: "  outboxctl why 01890a5d-ac96-774b-bcce-b302099a8057",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWhy(cmd.Context(), app, args[0], output)
		},
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteEventIDs(app, "")),
	}
	cli.AddOutputFlags(cmd, &output, cli.ObjectFormats()...)
	return cmd
}

func runWhy(ctx context.Context, app *cli.App, id string, output cli.Output) error {
	if _, err := outbox.ParseID(id); err != nil {
		return err
	}
	cfg, box, err := configured(ctx, app)
	if err != nil {
		return err
	}
	r, err := why.Explain(ctx, box, why.Params{ID: id, MaxAttempts: cfg.Publish.MaxAttempts})
	if err != nil {
		return err
	}
	err = cli.WriteObject(app, output, r, func(p *cli.Page) {
		p.Wrapped(r.Explanation)
		for i, command := range r.Commands {
			if i == 0 {
				p.Gap()
			}
			p.Line(command)
		}
	})
	if err == nil && r.State == why.NotFound {
		return cli.Silent(cli.ExitNotFound)
	}
	return err
}
