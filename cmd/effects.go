package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// effectOf is what a command does to the servers. One that is not listed counts as one that writes.
func effectOf(cmd *cobra.Command) cli.Effect {
	if effect, known := effects()[pathOf(cmd)]; known {
		return effect
	}
	return cli.Effect{Writes: true}
}

// pathOf is a command's name below outboxctl, such as "dlq list".
func pathOf(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

// effects lists every command. What writes is refused in a read-only context, here and nowhere else, before it opens anything;
// ui, which writes only on request, offers no changes there.
func effects() map[string]cli.Effect {
	looks := cli.Effect{}
	writes := cli.Effect{Writes: true}
	unless := func(flags ...string) cli.Effect { return cli.Effect{Writes: true, Unless: flags} }
	return map[string]cli.Effect{
		"":                   looks,
		"__complete":         looks,
		"__completeNoDesc":   looks,
		"audit":              looks,
		"audit show":         looks,
		"audit undo":         unless("dry-run"),
		"bench":              {Writes: true, With: []string{"database-url"}}, // otherwise on a server of its own
		"check":              looks,
		"cleanup":            unless("dry-run"),
		"completion":         looks,
		"completion bash":    looks,
		"completion fish":    looks,
		"completion zsh":     looks,
		"config":             looks,
		"config contexts":    looks,
		"config use-context": looks,
		"config view":        looks,
		"consume":            writes,
		"consumer":           looks,
		"consumer failures":  looks,
		"consumer forget":    unless("dry-run"),
		"consumer list":      looks,
		"consumer retry":     unless("dry-run"),
		"consumer show":      looks,
		"dev":                looks, // it has servers of its own, and leaves every context
		"dlq":                looks,
		"dlq discard":        unless("dry-run"),
		"dlq edit":           unless("dry-run"),
		"dlq export":         looks,
		"dlq list":           looks,
		"dlq replay":         unless("dry-run"),
		"dlq restore":        unless("dry-run"),
		"dlq show":           looks,
		"doctor":             looks,
		"emit":               unless("dry-run"),
		"environment":        looks,
		"erase":              unless("dry-run"),
		"event":              looks,
		"event list":         looks,
		"event republish":    unless("dry-run"),
		"event retry":        unless("dry-run"),
		"event show":         looks,
		"event tail":         looks,
		"exit-codes":         looks,
		"help":               looks,
		"init":               looks, // it writes files
		"migrate":            unless("dry-run", "plan"),
		"migrate down":       unless("dry-run"),
		"migrate grants":     looks,
		"migrate status":     looks,
		"migrate version":    looks,
		"options":            looks,
		"pause":              writes,
		"pause list":         looks,
		"plan":               looks,
		"plan abandon":       writes,
		"plan list":          looks,
		"plan run":           writes,
		"plan show":          looks,
		"plan stop":          writes,
		"publish":            writes,
		"registry":           looks,
		"registry apply":     unless("dry-run"),
		"registry check":     looks,
		"registry diff":      looks,
		"registry export":    looks,
		"registry list":      looks,
		"registry show":      looks,
		"resume":             writes,
		"stats":              looks,
		"topic":              looks,
		"topic ensure":       unless("dry-run"),
		"publishers":         looks,
		"topic list":         looks,
		"ui":                 looks,
		"version":            looks,
		"why":                looks,
	}
}
