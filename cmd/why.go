package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

type whyOptions struct {
	app *cli.App

	id     string
	output cli.OutputFlag
}

func newWhyCmd(app *cli.App, run func(context.Context, *whyOptions) error) *cobra.Command {
	opts := &whyOptions{app: app}
	cmd := &cobra.Command{
		Use:   "why EVENT_ID",
		Short: "Say in plain words where an event is, what it waits for and what to do",
		Long: `Say in one paragraph where an event is: waiting for its turn, backing off, being published, held by a paused topic,
dead, published, cleaned up or not here at all; and which command acts on it. EVENT_ID may also be a dead letter's id.
An event nobody has heard of exits with 3.`,
		Example: "  outboxctl why 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.id = args[0]
			return run(cmd.Context(), opts)
		},
		ValidArgsFunction: onlyFirst(cli.CompleteEventIDs(app, "")),
	}
	cli.AddOutputFlag(cmd, &opts.output, cli.ObjectFormats()...)
	return cmd
}

func runWhy(ctx context.Context, opts *whyOptions) error {
	id, err := operate.ParseID(opts.id)
	if err != nil {
		return err
	}
	store, err := opts.app.Store(ctx)
	if err != nil {
		return err
	}
	cfg, err := opts.app.Config("database.url")
	if err != nil {
		return err
	}
	catalogue := registry.New()
	facts, err := store.Facts(ctx, id, func(eventType string) string {
		_, topic, _ := catalogue.Resolve(eventType)
		return topic
	})
	if err != nil {
		return operate.StoreError(err)
	}
	facts.MaxAttempts = cfg.Publish.MaxAttempts
	answer := dlq.Why(facts)
	err = cli.WriteObject(opts.app, opts.output.Format, answer, func(w io.Writer) error { return sayWhy(opts.app, w, answer) })
	if err == nil && answer.State == dlq.WhyNotFound {
		return cli.Silent(cli.ExitNotFound)
	}
	return err
}

// wrapWords breaks lines between words only. An id broken at a hyphen can be neither selected nor searched for.
func wrapWords(text string, width int) string {
	var b strings.Builder
	used := 0
	for _, word := range strings.Fields(text) {
		n := ansi.StringWidth(word)
		switch {
		case used == 0:
		case used+1+n > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

func sayWhy(a *cli.App, w io.Writer, answer dlq.Answer) error {
	text := safetext.Line(answer.Explanation)
	if a.Width > 0 {
		text = wrapWords(text, min(a.Width, 100))
	}
	if _, err := fmt.Fprintln(w, text); err != nil {
		return err
	}
	for i, command := range answer.Commands {
		lead := ""
		if i == 0 {
			lead = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", lead, safetext.Line(command)); err != nil {
			return err
		}
	}
	return nil
}
