package cmd

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/check"
	"github.com/outboxctl/outboxctl/internal/cli"
)

// newHelpTopics are pages of help that belong to no command, such as outboxctl help environment.
func newHelpTopics(app *cli.App) []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "environment",
			Short: "Environment variables, with the setting each one sets",
			Long:  environmentHelp(app),
		},
		{
			Use:   "exit-codes",
			Short: "What the exit codes mean",
			Long:  exitCodesHelp(),
		},
	}
}

// environmentHelp lists the variables of every setting, from the same table that the configuration
// is read by.
func environmentHelp(app *cli.App) string {
	var b strings.Builder
	b.WriteString(`A setting comes from a flag, otherwise from the environment, otherwise from the configuration file, otherwise from a
running outboxctl dev stack (only when no server is configured at all), otherwise from its default. Where a setting has
several variables, the first one that is set wins. outboxctl config view shows every value with its origin.

`)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, k := range app.AllSettings() {
		names := k.EnvNames()
		meaning := k.Help
		if k.Def != "" {
			meaning += " (default " + k.Def + ")"
		}
		fmt.Fprintf(w, "  %s\t%s\n", names[0], meaning)
		for _, alias := range names[1:] {
			fmt.Fprintf(w, "  %s\tthe same, after %s\n", alias, names[0])
		}
	}
	for _, other := range [][2]string{
		{"OUTBOXCTL_CONFIG", "configuration file, as --config"},
		{"OUTBOXCTL_CONTEXT", "context of the configuration file, as --context"},
		{"OUTBOXCTL_ACTOR", "who the audit says did it (default user@host)"},
		{"NO_COLOR", "no colour on a terminal when set to anything"},
		{"CLICOLOR_FORCE", "colour on a pipe too when set to anything but 0"},
	} {
		fmt.Fprintf(w, "  %s\t%s\n", other[0], other[1])
	}
	cli.Must(w.Flush())
	return strings.TrimRight(b.String(), "\n")
}

func exitCodesHelp() string {
	var b strings.Builder
	for _, c := range []struct {
		code    int
		meaning string
	}{
		{cli.ExitOK, "done"},
		{cli.ExitFailed, "failed"},
		{cli.ExitUsage, "usage or configuration: nothing was tried"},
		{cli.ExitNotFound, "what was asked for does not exist"},
		{cli.ExitPrecondition, "precondition: a server does not answer, the schema is old, another process is doing the same"},
		{cli.ExitPartial, "partly done; the output tells which part"},
		{cli.ExitRefused, "refused: it would change something and was not confirmed (--yes), or the context is read-only"},
		{cli.ExitSignalBase + 2, "stopped by SIGINT (Ctrl-C)"},
		{cli.ExitSignalBase + 15, "stopped by SIGTERM"},
	} {
		fmt.Fprintf(&b, "  %-4d %s\n", c.code, c.meaning)
	}
	fmt.Fprintf(&b, `
outboxctl check has the codes of a Nagios plugin instead:

  %-4d ok
  %-4d warning
  %-4d critical
  %-4d unknown: the probe itself failed`, check.OK, check.Warning, check.Critical, check.Unknown)
	return b.String()
}
