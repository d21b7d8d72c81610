package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
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
recorded, otherwise the built-in one; a file and builtin need no database.`,
		Example: "  outboxctl registry list\n  outboxctl registry list --catalogue doorito.yaml\n  outboxctl registry list -o json | jq '.[] | select(.topic == \"billing\")'",
	}, false, eventTypeView(), from(app.Registry,
		func(_ context.Context, types *registry.Registry, _ []string) ([]registry.EventType, error) {
			return types.List(), nil
		}))
}

func eventTypeView() cli.View[registry.EventType] {
	return cli.View[registry.EventType]{
		ID: func(t registry.EventType) string { return t.Type },
		Columns: cli.Columns[registry.EventType]("type:whole, aggregate=aggregateType:60, topic, "+
			"description:rest:70, namespace:wide, payload=fields:wide").
			Cell("payload", func(t registry.EventType) string { return payloadCell(t.Fields) }),
	}
}

// payloadCell names the fields of a payload, the optional ones with a question mark.
func payloadCell(fields []registry.PayloadField) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
		if !f.Required {
			names[i] += "?"
		}
	}
	return strings.Join(names, ", ")
}

func newRegistryShowCmd(app *cli.App) *cobra.Command {
	var params registry.TypeParams
	cmd := &cobra.Command{
		Use:   "show TYPE",
		Short: "Show one event type: schema, policies, who applied it, and a call that emits it",
		Long: `Show what the catalogue says of one event type: topic, aggregate, payload, policies,
former names and the attributes of its messages, and a ready call of the SQL function outbox_emit.
-o json has the whole schema.

Of a type that the database recorded it tells since when it is as it is and who applied that, and
which version of it the running publishers have.`,
		Example:           "  outboxctl registry show license_status_changed\n  outboxctl registry show order.ready --catalogue doorito.yaml -o json",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteTypes(app)),
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
		mark := ""
		if !f.Required {
			mark = "?"
		}
		fmt.Fprintf(w, "  %s%s  %s\n", safetext.Line(f.Name), mark, safetext.Line(f.Type))
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

// emitCall is a call of outbox_emit to be completed.
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
		Use:   "export builtin|database|FILE",
		Short: "Write a catalogue as YAML, with every schema inside",
		Long: `Write a catalogue as YAML to standard output: the built-in one, the one that the
database recorded, or a file's with the schemas it refers to. To add a type to the built-in ones:
export builtin, edit, apply.`,
		Example:   "  outboxctl registry export builtin > catalogue.yaml\n  outboxctl registry export database",
		ValidArgs: []string{registry.Builtin, registry.Database},
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
	case registry.Builtin:
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
