package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/operate"
)

func newRegistryCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Show the catalogue of event types",
	}
	cmd.AddCommand(newRegistryListCmd(app))
	return cmd
}

func newRegistryListCmd(app *cli.App) *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the event types with aggregate, topic and payload",
		Long: `List every event type this binary knows: the aggregate it belongs to, the logical topic it is published on and, with
-o wide or -o json, the fields of its payload (a question mark means optional). Needs no database.`,
		Example: "  outboxctl registry list\n  outboxctl registry list -o wide\n  outboxctl registry list -o json | jq '.[] | select(.topic == \"billing\")'",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.WriteList(app, output, eventTypeView(), operate.EventTypes(app.Registry))
		},
	}
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	return cmd
}

func eventTypeView() cli.View[operate.EventType] {
	return cli.View[operate.EventType]{
		ID: func(t operate.EventType) string { return t.Type },
		Columns: []cli.Column[operate.EventType]{
			{Head: "type", Cell: func(t operate.EventType, _ *cli.CellStyle) string { return t.Type }},
			{Head: "aggregate", Field: "aggregateType", Cell: func(t operate.EventType, _ *cli.CellStyle) string { return t.AggregateType }},
			{Head: "topic", Cell: func(t operate.EventType, _ *cli.CellStyle) string { return t.Topic }},
			{Head: "description", Cell: func(t operate.EventType, _ *cli.CellStyle) string { return t.Description }},
			{Head: "payload", Field: "fields", Wide: true, Cell: func(t operate.EventType, _ *cli.CellStyle) string { return payloadCell(t.Fields) }},
		},
	}
}

// payloadCell names the fields of a payload, the optional ones with a question mark.
func payloadCell(fields []operate.PayloadField) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
		if !f.Required {
			names[i] += "?"
		}
	}
	return strings.Join(names, ", ")
}
