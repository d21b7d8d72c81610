package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// contextEntry is one context as config contexts shows it.
type contextEntry struct {
	Name       string `json:"name"`
	Current    bool   `json:"current"`
	Production bool   `json:"production"`
	ReadOnly   bool   `json:"readOnly"`
	Database   string `json:"database"`
	Project    string `json:"project"`
}

func newConfigContextsCmd(app *cli.App) *cobra.Command {
	return listing(app, &cobra.Command{
		Use:   "contexts",
		Short: "List the contexts of the configuration file",
		Long: `List the contexts of the configuration file: sets of servers, each under one name, of
which --context, OUTBOXCTL_CONTEXT or config use-context chooses one.`,
		Example: "  outboxctl config contexts\n  outboxctl stats --context production",
	}, false, contextView(), func(context.Context, []string) ([]contextEntry, error) {
		cfg, err := app.Config()
		if err != nil {
			return nil, err
		}
		entries := make([]contextEntry, len(cfg.Contexts))
		for i, c := range cfg.Contexts {
			entries[i] = contextEntry{
				Name: c.Name, Current: cfg.Context != nil && cfg.Context.Name == c.Name, Production: c.Production, ReadOnly: c.ReadOnly,
				Database: safetext.URL(c.Setting("database.url")), Project: c.Setting("pubsub.project"),
			}
		}
		return entries, nil
	})
}

func contextView() cli.View[contextEntry] {
	mark := func(is bool, word string) string {
		if is {
			return word
		}
		return ""
	}
	return cli.View[contextEntry]{
		ID:    func(e contextEntry) string { return e.Name },
		Empty: "no contexts: the configuration file has none",
		Columns: []cli.Column[contextEntry]{
			{Head: "current", Cell: func(e contextEntry, _ *cli.CellStyle) string { return mark(e.Current, "*") }},
			{Head: "name"},
			{Head: "kind", Field: "production readOnly", Cell: func(e contextEntry, _ *cli.CellStyle) string {
				return mark(e.Production, "production ") + mark(e.ReadOnly, "read-only")
			}},
			{Head: "database"},
			{Head: "project"},
		},
	}
}

func newConfigUseContextCmd(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "use-context NAME",
		Short: "Make a context the current one",
		Long: `Make a context the current one: its name is written to current_context of the
configuration file, whose other lines stay as they are. - leaves every context.`,
		Example:           "  outboxctl config use-context staging\n  outboxctl config use-context -",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteContexts(app)),
		RunE: func(_ *cobra.Command, args []string) error {
			// A current context that does not exist must not keep another from becoming it.
			file, known, err := app.ContextNames()
			if err != nil {
				return err
			}
			name := args[0]
			switch {
			case name == "-":
				name = ""
			case !known[name]:
				return fault.Hint(fault.NotFoundf("%s has no context %q", file, name), "outboxctl config contexts lists them")
			}
			if err := cli.SetCurrentContext(file, name); err != nil {
				return fault.Preconditionf("write %s: %w", file, err)
			}
			if name == "" {
				fmt.Fprintln(app.Err, "no context is current")
			} else {
				fmt.Fprintf(app.Err, "%s is the current context\n", name)
			}
			return nil
		},
	}
}
