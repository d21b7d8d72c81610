package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

func newConfigCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration, and choose a context",
	}
	cmd.AddCommand(newConfigViewCmd(app), newConfigContextsCmd(app), newConfigUseContextCmd(app))
	return cmd
}

type configViewOptions struct {
	app *cli.App

	output cli.Output
}

// configEntry is one setting as config view shows it.
type configEntry struct {
	Key    string   `json:"key"`
	Value  string   `json:"value"`
	Origin string   `json:"origin"`
	Flag   string   `json:"flag,omitempty"`
	Env    []string `json:"env"`
}

func newConfigViewCmd(app *cli.App) *cobra.Command {
	opts := &configViewOptions{app: app}
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Show every setting with its value and its origin, secrets hidden",
		Long: `Show every setting with its value and where that value comes from: a flag, an environment variable, the
configuration file, the running dev stack or the default. Passwords are hidden.

Values that cannot be read are shown too; the command then lists every problem and exits with 2.`,
		Example: "  outboxctl config view\n  outboxctl config view -o json | jq '.[] | select(.origin != \"default\")'",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runConfigView(opts) },
	}
	// The flags of the other commands are accepted here, so that a whole command line can be tried out.
	for _, group := range []cli.FlagGroup{cli.GroupPublish, cli.GroupConsume, cli.GroupTopic, cli.GroupDev, cli.GroupUI} {
		cli.AddConfigFlags(cmd, group)
	}
	cli.AddOutputFlags(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

func runConfigView(opts *configViewOptions) error {
	app := opts.app
	_, problem := app.Config()
	entries := make([]configEntry, 0, len(app.Settings()))
	for _, v := range app.Settings() {
		e := configEntry{Key: v.Key.Name, Value: v.Raw, Origin: v.Origin, Env: v.Key.EnvNames()}
		if v.Key.Secret {
			e.Value = safetext.URL(v.Raw)
		}
		if v.Key.Flag != "" {
			e.Flag = "--" + v.Key.Flag
		}
		entries = append(entries, e)
	}
	err := cli.WriteList(app, opts.output, configView(), entries)
	if err != nil {
		return err
	}
	for _, name := range app.UnknownVariables() {
		fmt.Fprintf(app.Err, "warning: the environment variable %s is not a setting\n", safetext.Line(name))
	}
	return problem
}

func configView() cli.View[configEntry] {
	return cli.View[configEntry]{
		ID: func(e configEntry) string { return e.Key },
		Columns: []cli.Column[configEntry]{
			{Head: "key", Cell: func(e configEntry, s *cli.CellStyle) string { return e.Key }},
			{Head: "value", Cell: func(e configEntry, s *cli.CellStyle) string { return e.Value }},
			{Head: "origin", Cell: func(e configEntry, s *cli.CellStyle) string { return e.Origin }},
			{Head: "flag", Wide: true, Cell: func(e configEntry, s *cli.CellStyle) string { return e.Flag }},
			{Head: "env", Wide: true, Cell: func(e configEntry, s *cli.CellStyle) string { return strings.Join(e.Env, " ") }},
		},
	}
}
