package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/ui"
)

func newConfigCmd(app *cli.App) *cobra.Command {
	return group("config", "Show the configuration, and choose a context", "",
		newConfigViewCmd(app), newConfigContextsCmd(app), newConfigUseContextCmd(app))
}

func newConfigViewCmd(app *cli.App) *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Show every setting with its value and its origin, secrets hidden",
		Long: `Show every setting with its value and where that value comes from: a flag, an
environment variable, the configuration file, the running dev stack, the catalogue in use (for the
names of topics) or the default. Passwords are hidden.

Values that cannot be read are shown too; the command then lists every problem and exits with 2.`,
		Example: "  outboxctl config view\n  outboxctl config view -o json | jq '.[] | select(.origin != \"default\")'",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runConfigView(cmd.Context(), app, output) },
	}
	// The flags of the other commands are accepted here, so that a whole command line can be tried
	// out.
	for _, group := range []cli.FlagGroup{cli.GroupPublish, cli.GroupConsume, cli.GroupTopic, cli.GroupDev, cli.GroupUI} {
		app.AddConfigFlags(cmd, group)
	}
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	return cmd
}

// lookTimeout bounds the look at the recorded catalogue: the settings are shown without the
// database, too.
const lookTimeout = 2 * time.Second

func runConfigView(ctx context.Context, app *cli.App, output cli.Output) error {
	_, problem := app.Config()
	settings := app.Settings()
	if problem == nil {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		app.Quiet()
		var err error
		if settings, err = app.SettingsInUse(ctx); err != nil {
			fmt.Fprintf(app.Err, "warning: the topics shown are those of the built-in catalogue, because the one in use cannot be read: %s\n", safetext.Line(err.Error()))
		}
	}
	if err := cli.WriteList(app, output, cli.View[ui.Setting]{
		ID: func(e ui.Setting) string { return e.Key },
		Columns: cli.Columns[ui.Setting]("key, value, origin, flag:wide, env:wide").
			Cell("env", func(e ui.Setting) string { return strings.Join(e.Env, " ") }),
	}, shownSettings(settings)); err != nil {
		return err
	}
	for _, name := range app.UnknownVariables() {
		fmt.Fprintf(app.Err, "warning: the environment variable %s is not a setting\n", safetext.Line(name))
	}
	return problem
}

// shownSettings are settings without what is secret.
func shownSettings(values []cli.ConfigValue) []ui.Setting {
	entries := make([]ui.Setting, 0, len(values))
	for _, v := range values {
		e := ui.Setting{Key: v.Key.Name, Value: v.Raw, Origin: v.Origin, Env: v.Key.EnvNames()}
		switch {
		case v.Key.Secret && v.Key.Kind == "url":
			e.Value = safetext.URL(v.Raw)
		case v.Key.Secret && v.Raw != "":
			e.Value = "(hidden)"
		}
		if v.Key.Flag != "" {
			e.Flag = "--" + v.Key.Flag
		}
		entries = append(entries, e)
	}
	return entries
}

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
	}, false, cli.View[contextEntry]{
		ID:    func(e contextEntry) string { return e.Name },
		Empty: "no contexts: the configuration file has none",
		Columns: cli.Columns[contextEntry]("current, name, kind=production readOnly, "+
			"database, project").
			Cell("current", func(e contextEntry) string { return either(e.Current, "*", "") }).
			Cell("kind", func(e contextEntry) string {
				return either(e.Production, "production ", "") + either(e.ReadOnly, "read-only", "")
			}),
	}, func(context.Context, []string) ([]contextEntry, error) {
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

func newConfigUseContextCmd(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "use-context NAME",
		Args:  cobra.ExactArgs(1),
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
