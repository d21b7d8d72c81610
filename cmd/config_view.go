package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

func newConfigCmd(app *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration and where each value comes from",
	}
	cmd.AddCommand(newConfigViewCmd(app))
	return cmd
}

type configViewOptions struct {
	app *App

	output outputFlag
}

// configEntry is one setting as config view shows it.
type configEntry struct {
	Key    string   `json:"key"`
	Value  string   `json:"value"`
	Origin string   `json:"origin"`
	Flag   string   `json:"flag,omitempty"`
	Env    []string `json:"env"`
}

func newConfigViewCmd(app *App) *cobra.Command {
	opts := &configViewOptions{app: app}
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Show every setting with its value and its origin, secrets hidden",
		Long: `Show every setting with its value and where that value comes from: a flag, an environment variable, the
configuration file, the running dev stack or the default. Passwords are hidden.

Values that cannot be read are shown too; the command then lists every problem and exits with 2.`,
		Example: "  outboxctl config view\n  outboxctl config view -o json | jq '.[] | select(.origin != \"default\")'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runConfigView(cmd.Context(), opts) },
	}
	// The flags of the other commands are accepted here, so that a whole command line can be tried out.
	for _, group := range []flagGroup{groupPublish, groupConsume, groupTopic, groupDev} {
		addConfigFlags(cmd, group)
	}
	addOutputFlag(cmd, &opts.output, listFormats()...)
	return cmd
}

func runConfigView(_ context.Context, opts *configViewOptions) error {
	app := opts.app
	_, problem := app.Config()
	entries := make([]configEntry, 0, len(app.cfg.values))
	for _, v := range app.cfg.values {
		e := configEntry{Key: v.key.name, Value: v.raw, Origin: v.origin, Env: v.key.envNames()}
		if v.key.secret {
			e.Value = safetext.URL(v.raw)
		}
		if v.key.flag != "" {
			e.Flag = "--" + v.key.flag
		}
		entries = append(entries, e)
	}
	err := writeList(app, opts.output.format, configView(), entries)
	if err != nil {
		return err
	}
	for _, name := range unknownVariables(app.env) {
		fmt.Fprintf(app.Err, "warning: the environment variable %s is not a setting\n", safetext.Line(name))
	}
	return problem
}

func configView() view[configEntry] {
	return view[configEntry]{
		id: func(e configEntry) string { return e.Key },
		columns: []column[configEntry]{
			{head: "key", cell: func(e configEntry, s *cellStyle) string { return e.Key }},
			{head: "value", cell: func(e configEntry, s *cellStyle) string { return e.Value }},
			{head: "origin", cell: func(e configEntry, s *cellStyle) string { return e.Origin }},
			{head: "flag", wide: true, cell: func(e configEntry, s *cellStyle) string { return e.Flag }},
			{head: "env", wide: true, cell: func(e configEntry, s *cellStyle) string { return strings.Join(e.Env, " ") }},
		},
	}
}

// unknownVariables finds OUTBOXCTL_ variables that set nothing: mostly typing errors.
func unknownVariables(env map[string]string) []string {
	known := []string{"OUTBOXCTL_CONFIG", "OUTBOXCTL_ACTOR"}
	for _, k := range configKeys() {
		known = append(known, k.envNames()...)
	}
	var unknown []string
	for name := range env {
		if strings.HasPrefix(name, "OUTBOXCTL_") && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}
