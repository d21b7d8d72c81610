package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

type registryApplyFlags struct {
	registry.ApplyParams
	doFlags
}

func newRegistryApplyCmd(app *cli.App) *cobra.Command {
	var f registryApplyFlags
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Record a catalogue in the database",
		Long: `Record a catalogue file in the database, in one transaction with its audit row. From
then on outbox_emit refuses by it, publishers that follow the database take it within seconds, and
others that have the same version may dead-letter by it. What the configured destination takes in a
message is recorded with it: outbox_emit refuses what is larger.

Adding types needs no confirmation. A changed catalogue is tried on the events that wait and on the
last 1,000 published ones; what it would refuse, and any removal, has to be confirmed. A type of
which events wait cannot be removed. Where event types are enums, their new values are added first;
they stay, whatever happens then.

Deploy in this order: migrate, registry apply, then publishers and emitters as they come.`,
		Example: "  outboxctl registry apply doorito.yaml --dry-run\n  outboxctl registry apply doorito.yaml --note \"TICKET-7\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Actor, f.Note = app.Actor(f.audit), f.audit.Note
			return runRegistryApply(cmd.Context(), app, args[0], &f)
		},
	}
	cmd.Flags().BoolVar(&f.DryRun, "dry-run", false, "show what would change, and change nothing")
	f.add(cmd)
	return cmd
}

func runRegistryApply(ctx context.Context, app *cli.App, file string, f *registryApplyFlags) error {
	var err error
	if f.Catalogue, err = openAndWarn(app, file); err != nil {
		return err
	}
	db, err := app.Reads(ctx)
	if err != nil {
		return err
	}
	params := f.ApplyParams
	params.DryRun = true
	result, err := registry.Apply(ctx, db, params)
	if err != nil {
		return err
	}
	announceApply(app.Err, result)
	if !f.DryRun && result.Differs() {
		if result.Asks() {
			if err := app.Confirm(ctx, f.yes, cli.Destroys, "record it"); err != nil {
				return err
			}
		}
		params.DryRun, params.Revision = false, &result.Revision
		if result, err = registry.Apply(ctx, db, params); err != nil {
			return err
		}
	}
	return cli.WriteObject(app, f.output, result, func(p *cli.Page) { printApply(p, result, app.Where()) })
}

// announceApply prints what a confirmation is about.
func announceApply(w io.Writer, r registry.ApplyResult) {
	for _, c := range r.Changes {
		if c.Change == registry.TypeRemoved {
			fmt.Fprintf(w, "%s is removed: emitters are refused, and events of it that come all the same die\n", safetext.Line(c.Type))
		}
	}
	for _, refused := range r.Trial.Refused {
		fmt.Fprintf(w, "%s: %s would die and %d of those published lately would be refused: %s\n",
			safetext.Line(refused.EventType), words.Counted(refused.Waiting, "waiting event"), refused.Published, safetext.Line(refused.Problem))
	}
}

func printApply(w io.Writer, r registry.ApplyResult, in string) {
	marks := map[string]string{registry.TypeAdded: "+", registry.TypeChanged: "~", registry.TypeRemoved: "-", registry.TypeRenamed: ">"}
	for _, c := range r.Changes {
		fmt.Fprintf(w, "%s %s", marks[c.Change], safetext.Line(c.Type))
		if len(c.Parts) > 0 {
			fmt.Fprintf(w, " (%s)", strings.Join(c.Parts, ", "))
		}
		fmt.Fprintln(w)
	}
	if r.Limits {
		fmt.Fprintln(w, "~ the destination's limits")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", safetext.Line(note))
	}
	switch {
	case !r.Differs():
		fmt.Fprintf(w, "nothing to record: the database has it already (revision %d)\n", r.Revision)
	case r.DryRun:
		fmt.Fprintln(w, "dry run: nothing was changed")
	default:
		fmt.Fprintf(w, "recorded %s as revision %d%s (audit %d)\n", safetext.Line(r.Catalogue), r.Revision, in, r.AuditID)
	}
}

func typeChangeView() cli.View[registry.TypeChange] {
	return cli.View[registry.TypeChange]{
		ID: func(c registry.TypeChange) string { return c.Type },
		Columns: cli.Columns[registry.TypeChange]("change, type, parts, waiting, namespace:wide").
			Cell("parts", func(c registry.TypeChange) string { return strings.Join(c.Parts, ", ") }),
	}
}
