package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

func newRegistryCmd(app *cli.App) *cobra.Command {
	return group("registry", "Show, check and record the catalogue of event types", "",
		newRegistryListCmd(app), newRegistryShowCmd(app), newRegistryCheckCmd(app), newRegistryDiffCmd(app),
		newRegistryExportCmd(app), newRegistryApplyCmd(app))
}

func newRegistryListCmd(app *cli.App) *cobra.Command {
	return listing(app, &cobra.Command{
		Use:   "list",
		Short: "List the event types with aggregate, topic and payload",
		Long: `List every event type of the catalogue: the aggregate it belongs to, the logical
topic it is published on and, with -o wide or -o json, the fields of its payload (a question mark
means optional). The catalogue is the one that --catalogue names, otherwise what the database
recorded, otherwise the built-in one; a file and packfinderz need no database.`,
		Example: "  outboxctl registry list\n  outboxctl registry list --catalogue doorito.yaml\n  outboxctl registry list -o json | jq '.[] | select(.topic == \"billing\")'",
	}, false, cli.View[registry.EventType]{
		ID: func(t registry.EventType) string { return t.Type },
		Columns: cli.Columns[registry.EventType]("type:whole, aggregate=aggregateType:60, topic, "+
			"description:rest:70, namespace:wide, payload=fields:wide").
			Cell("payload", payloadCell),
	}, from(app.Registry,
		func(_ context.Context, types *registry.Registry, _ []string) ([]registry.EventType, error) {
			return types.List(), nil
		}))
}

// payloadCell names the fields of a payload, the optional ones with a question mark.
func payloadCell(t registry.EventType) string {
	names := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		names[i] = f.Name + either(f.Required, "", "?")
	}
	return strings.Join(names, ", ")
}

func newRegistryShowCmd(app *cli.App) *cobra.Command {
	var params registry.TypeParams
	cmd := &cobra.Command{
		Use:   "show TYPE",
		Args:  cobra.ExactArgs(1),
		Short: "Show one event type: schema, policies, who applied it, and a call that emits it",
		Long: `Show what the catalogue says of one event type: topic, aggregate, payload, policies,
former names and the attributes of its messages, and a ready call of the SQL function outbox_emit.
-o json has the whole schema.

Of a type that the database recorded it tells since when it is as it is and who applied that, and
which version of it the running publishers have.`,
		Example: "  outboxctl registry show license_status_changed\n  outboxctl registry show order.ready --catalogue doorito.yaml -o json",
	}
	cmd.Flags().StringVar(&params.Namespace, "namespace", "", "the type of this namespace (default the first that has it)")
	read := func(ctx context.Context, types *registry.Registry, args []string) (registry.EventTypeDetail, error) {
		params.Name = args[0]
		detail, err := types.Show(params)
		if err != nil || types.Source != registry.Database {
			return detail, err
		}
		db, err := app.Reads(ctx)
		if err != nil {
			return detail, err
		}
		detail.Publishers, err = types.Holders(ctx, db, detail.EventType)
		return detail, err
	}
	return showing(app, cmd, from(app.Registry, read), printEventType)
}

func printEventType(w *cli.Page, t registry.EventTypeDetail) {
	applied := ""
	if t.AppliedAt != nil {
		applied = t.AppliedAt.Format(time.RFC3339) + " by " + t.AppliedBy
	}
	lines := [][2]string{
		{"type", t.Type}, {"namespace", t.Namespace}, {"description", t.Description}, {"topic", t.Topic + " (" + t.TopicName + ")"},
		{"aggregate", t.AggregateType}, {"envelope", t.Envelope}, {"extra fields", t.ExtraFields}, {"checked at", t.Check}, {"order", t.Order},
		{"policy", t.Policy.String()}, {"was", strings.Join(t.Was, ", ")}, {"attributes", strings.Join(t.Attributes, ", ")}, {"digest", t.Digest[:12]}, {"applied", applied},
	}
	for _, p := range t.Publishers {
		lines = append(lines, [2]string{"publisher", fmt.Sprintf("%s/%d %s", p.Host, p.PID, holderText(p))})
	}
	for _, line := range lines {
		if line[1] != "" {
			fmt.Fprintf(w, "%-13s %s\n", line[0], safetext.Line(line[1]))
		}
	}
	for _, f := range t.Fields {
		fmt.Fprintf(w, "  %s%s  %s\n", safetext.Line(f.Name), either(f.Required, "", "?"),
			safetext.Line(f.Type))
	}
	fmt.Fprintf(w, "\n%s\n", safetext.Line(emitCall(t)))
}

// holderText describes which version of a type a publisher has.
func holderText(p registry.TypeHolder) string {
	text := map[string]string{
		registry.VersionSame: "has this version", registry.VersionNone: "does not have the type", registry.VersionUnseen: "has not seen this revision yet",
	}[p.Version]
	if p.Version == registry.VersionOther {
		text = "has another version, " + p.Digest[:min(12, len(p.Digest))]
	}
	if p.StoodDown {
		text += ", and leaves the type to others: an event did not fit it"
	}
	return text + " (catalogue " + p.Source + ")"
}

func emitCall(t registry.EventTypeDetail) string {
	call := fmt.Sprintf("SELECT id FROM outbox_emit('%s', ", t.Type)
	if t.AggregateType == "none" {
		call = fmt.Sprintf("SELECT id FROM outbox_emit(event_type => '%s', aggregate_type => NULL, aggregate_id => NULL, data => ", t.Type)
	} else {
		call += fmt.Sprintf("'%s', '…', ", t.AggregateType)
	}
	call += "'" + strings.ReplaceAll(string(t.Sample), "'", "''") + "'"
	if t.Namespace != "*" {
		call += ", namespace => '" + t.Namespace + "'"
	}
	return call + ");"
}

func newRegistryExportCmd(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:               "export packfinderz|database|FILE",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteFiles()),
		Args:              cobra.ExactArgs(1),
		Short:             "Write a catalogue as YAML, with every schema inside",
		Long: `Write a catalogue as YAML to standard output: the built-in one, the one that the
database recorded, or a file's with the schemas it refers to. To add a type to the built-in ones:
export packfinderz, edit, apply.`,
		Example:   "  outboxctl registry export packfinderz > catalogue.yaml\n  outboxctl registry export database",
		ValidArgs: []string{registry.PackFinderz, registry.Database},
		RunE: func(cmd *cobra.Command, args []string) error {
			types, err := exported(cmd.Context(), app, args[0])
			if err != nil {
				return err
			}
			text, err := types.YAML()
			if err != nil {
				return err
			}
			_, err = app.Out.Write(text)
			return err
		},
	}
}

func exported(ctx context.Context, app *cli.App, source string) (*registry.Registry, error) {
	switch source {
	case registry.PackFinderz:
		return registry.New(), nil
	case registry.Database:
		db, err := app.Reads(ctx)
		if err != nil {
			return nil, err
		}
		return registry.Recorded(ctx, db)
	}
	return app.OpenCatalogue(source)
}

func newRegistryCheckCmd(app *cli.App) *cobra.Command {
	var pending bool
	var output cli.Output
	cmd := &cobra.Command{
		Use:               "check FILE",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteFiles()),
		Args:              cobra.ExactArgs(1),
		Short:             "Check a catalogue file, and with --pending try it on the events that wait",
		Long: `Check a catalogue file without a database: its keys and names, that its schemas
compile and refer only to files in its folder, that a broker takes its topics. All problems are
listed at once, each with its line; a keyword that JSON Schema does not know is a warning, because
it checks nothing.

With --pending every event that waits in the database is judged by the file, and what would die is
listed with its reason. Nothing is changed. The exit code is then 1 when events would die.`,
		Example: "  outboxctl registry check doorito.yaml\n  outboxctl registry check doorito.yaml --pending",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRegistryCheck(cmd.Context(), app, args[0], pending, output)
		},
	}
	cmd.Flags().BoolVar(&pending, "pending", false, "check every waiting event in the database")
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	return cmd
}

func runRegistryCheck(ctx context.Context, app *cli.App, file string, pending bool, output cli.Output) error {
	types, err := openAndWarn(app, file)
	if err != nil {
		return err
	}
	if !pending {
		fmt.Fprintf(app.Err, "%s is a valid catalogue: %s on %s\n", safetext.Line(file), words.Counted(int64(len(types.List())), "type"),
			words.Counted(int64(len(types.Topics())), "topic"))
		return nil
	}
	db, err := app.Reads(ctx)
	if err != nil {
		return err
	}
	trial, err := registry.Try(ctx, db, types, false)
	if err != nil {
		return err
	}
	if err := cli.WriteList(app, output, cli.View[registry.Refusal]{
		ID: func(r registry.Refusal) string { return r.Example },
		Columns: cli.Columns[registry.Refusal]("type=eventType, reason, waiting, published:wide, " +
			"problem:wrap, example"),
	}, trial.Refused); err != nil {
		return err
	}
	var die int64
	for _, r := range trial.Refused {
		die += r.Waiting
	}
	fmt.Fprintf(app.Err, "%s waiting, %s of them would die\n", words.Counted(trial.Waiting, "event"), words.Count(die))
	if die > 0 {
		return cli.Silent(cli.ExitFailed)
	}
	return nil
}

// openAndWarn reads a catalogue file and prints what is most likely a mistake.
func openAndWarn(app *cli.App, file string) (*registry.Registry, error) {
	types, err := app.OpenCatalogue(file)
	if err != nil {
		return nil, err
	}
	for _, w := range types.Warnings() {
		fmt.Fprintf(app.Err, "warning: %s\n", safetext.Line(w))
	}
	return types, nil
}

func newRegistryDiffCmd(app *cli.App) *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use:               "diff FILE",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteFiles()),
		Args:              cobra.ExactArgs(1),
		Short:             "Show what recording a catalogue file would change",
		Long: `Compare a catalogue file with the catalogue that the database recorded: the types
that would be added, changed (and in what), renamed or removed, with the number of events that wait.
Nothing is changed.`,
		Example: "  outboxctl registry diff doorito.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			types, err := openAndWarn(app, args[0])
			if err != nil {
				return err
			}
			db, err := app.Reads(cmd.Context())
			if err != nil {
				return err
			}
			diff, err := registry.Diff(cmd.Context(), db, types)
			if err != nil {
				return err
			}
			if err := cli.WriteList(app, output, cli.View[registry.TypeChange]{
				ID: func(c registry.TypeChange) string { return c.Type },
				Columns: cli.Columns[registry.TypeChange]("change, type, parts, waiting, "+
					"namespace:wide").
					Cell("parts", func(c registry.TypeChange) string { return strings.Join(c.Parts, ", ") }),
			}, diff.Changes); err != nil {
				return err
			}
			if diff.Limits {
				fmt.Fprintln(app.Err, "the destination takes other messages than the one it was recorded for")
			}
			fmt.Fprintf(app.Err, "%s, %d unchanged (recorded revision %d)\n", words.Counted(int64(len(diff.Changes)), "change"), diff.Unchanged, diff.Revision)
			return nil
		},
	}
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	return cmd
}

type registryApplyFlags struct {
	registry.ApplyParams
	doFlags
}

func newRegistryApplyCmd(app *cli.App) *cobra.Command {
	var f registryApplyFlags
	cmd := &cobra.Command{
		Use:               "apply FILE|packfinderz",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteFiles()),
		Args:              cobra.ExactArgs(1),
		Short:             "Record a catalogue in the database",
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
