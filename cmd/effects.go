package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// effectOf is what a command does to the servers, and the one place that knows it: what writes is
// refused in a read-only context before it opens anything. A command with --dry-run writes unless
// that is given; one that is not listed as looking counts as one that writes.
func effectOf(cmd *cobra.Command) cli.Effect {
	path := pathOf(cmd)
	switch {
	case slices.Contains(looking(), path):
		return cli.Effect{}
	case cmd.Flags().Lookup("dry-run") != nil:
		return cli.Effect{Writes: true, Unless: []string{"dry-run"}}
	default:
		return cli.Effect{Writes: true}
	}
}

// pathOf is a command's name below outboxctl, such as "dlq list".
func pathOf(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

// looking lists the commands that change nothing on the servers. init writes files; dev has servers
// of its own, and leaves every context; ui, which writes only on request, offers no changes in a
// read-only context.
func looking() []string {
	return []string{
		"", "__complete", "__completeNoDesc", "completion", "completion bash", "completion fish", "completion zsh",
		"help", "environment", "exit-codes", "version", "init", "dev", "ui",
		"config", "config contexts", "config use-context", "config view",
		"audit", "audit show", "check", "doctor", "publishers", "stats", "why",
		"consumer", "consumer failures", "consumer list", "consumer show",
		"dlq", "dlq export", "dlq list", "dlq show", "event", "event list", "event show", "event tail",
		"migrate grants", "migrate status", "migrate version", "pause list", "plan", "plan list", "plan show",
		"registry", "registry check", "registry diff", "registry export", "registry list", "registry show",
		"topic", "topic list",
	}
}
