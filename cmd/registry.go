package cmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/registry"
)

func newRegistryCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Show the catalogue of event types",
	}
	cmd.AddCommand(newRegistryListCmd(app, nil))
	return cmd
}

type registryListOptions struct {
	app *cli.App

	output cli.OutputFlag
}

// registryEntry is one event type as registry list shows it.
type registryEntry struct {
	Type          string          `json:"type"`
	AggregateType string          `json:"aggregateType"`
	Topic         string          `json:"topic"`
	Description   string          `json:"description"`
	Fields        []registryField `json:"fields"`
}

type registryField struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

func newRegistryListCmd(app *cli.App, runF func(context.Context, *registryListOptions) error) *cobra.Command {
	opts := &registryListOptions{app: app}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the event types with aggregate, topic and payload",
		Long: `List every event type this binary knows: the aggregate it belongs to, the logical topic it is published on and, with
-o wide or -o json, the fields of its payload (a question mark means optional). Needs no database.`,
		Example: "  outboxctl registry list\n  outboxctl registry list -o wide\n  outboxctl registry list -o json | jq '.[] | select(.topic == \"billing\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), opts)
			}
			return runRegistryList(opts)
		},
	}
	cli.AddOutputFlag(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

func runRegistryList(opts *registryListOptions) error {
	all := registry.New().Types()
	rows := make([]registryEntry, len(all))
	for i, e := range all {
		rows[i] = registryEntry{e.Name, e.Aggregate, e.Topic, e.Description, make([]registryField, len(e.Fields))}
		for j, f := range e.Fields {
			rows[i].Fields[j] = registryField{f.Name, f.Type, f.Required}
		}
	}
	return cli.WriteList(opts.app, opts.output.Format, registryView(), rows)
}

func registryView() cli.View[registryEntry] {
	return cli.View[registryEntry]{
		ID: func(e registryEntry) string { return e.Type },
		Columns: []cli.Column[registryEntry]{
			{Head: "type", Cell: func(e registryEntry, _ *cli.CellStyle) string { return e.Type }},
			{Head: "aggregate", Cell: func(e registryEntry, _ *cli.CellStyle) string { return e.AggregateType }},
			{Head: "topic", Cell: func(e registryEntry, _ *cli.CellStyle) string { return e.Topic }},
			{Head: "description", Cell: func(e registryEntry, _ *cli.CellStyle) string { return e.Description }},
			{Head: "payload", Wide: true, Cell: func(e registryEntry, _ *cli.CellStyle) string { return payloadCell(e.Fields) }},
		},
	}
}

// payloadCell names the fields of a payload, the optional ones with a question mark.
func payloadCell(fields []registryField) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
		if !f.Required {
			names[i] += "?"
		}
	}
	return strings.Join(names, ", ")
}
