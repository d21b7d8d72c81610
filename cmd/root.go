package cmd

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// The groups in which help lists the commands.
const (
	groupRun     = "run"
	groupOperate = "operate"
	groupSetUp   = "setup"
)

// newRootCmd builds the whole command tree.
func newRootCmd(app *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "outboxctl",
		Short: "Move committed events from a PostgreSQL outbox to where they belong, and fix what is stuck",
		Long: `outboxctl runs and operates a transactional outbox on PostgreSQL: it creates the
tables, publishes committed events to Pub/Sub, NATS, Kafka, RabbitMQ, a service or a command,
keeps a dead-letter table, and shows what is stuck and why.

Settings come from flags, then environment, then a file, then defaults; see outboxctl config view.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       buildVersion().String(),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			app.BindFlags(cmd)
			return app.RefuseReadOnly(cmd, effectOf(cmd))
		},
	}
	root.SetVersionTemplate("outboxctl {{.Version}}\n")
	app.AddConfigFlags(root, cli.GroupGlobal)
	color := cli.ColorAuto
	cli.AddChoice(root.PersistentFlags(), &color, "color", "colour the output", cli.ColorAuto, cli.ColorAlways, cli.ColorNever)
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupOperate, Title: "Operate:"},
		&cobra.Group{ID: groupSetUp, Title: "Set up:"},
	)
	root.SetHelpCommandGroupID(groupSetUp)
	root.SetCompletionCommandGroupID(groupSetUp)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)

	addTo(root, groupRun,
		newConsumeCmd(app), newDevCmd(app), newPublishCmd(app), newUICmd(app))
	addTo(root, groupOperate,
		newEmitCmd(app), newStatsCmd(app), newPublishersCmd(app), newCheckCmd(app),
		newCleanupCmd(app), newDoctorCmd(app), newConsumerCmd(app), newDLQCmd(app),
		newEventCmd(app), newEraseCmd(app), newPlanCmd(app), newPauseCmd(app), newResumeCmd(app),
		newWhyCmd(app), newAuditCmd(app))
	addTo(root, groupSetUp,
		newInitCmd(app), newMigrateCmd(app), newTopicCmd(app), newRegistryCmd(app),
		newConfigCmd(app), newVersionCmd(app))
	root.AddCommand(newHelpTopics(app)...)
	root.InitDefaultCompletionCmd()
	dropPowerShell(root)
	root.InitDefaultHelpCmd()
	prepare(app, root)
	return root
}

// dropPowerShell leaves out the completion of a shell that no release runs on.
func dropPowerShell(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() == "powershell" {
			root.RemoveCommand(cmd)
		} else if cmd.Name() == "completion" {
			dropPowerShell(cmd)
		}
	}
}

// group is a command that only has commands.
func group(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Long: long}
	cmd.AddCommand(commands...)
	return cmd
}

func addTo(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// prepare gives every command of the tree the same behaviour: a group without a subcommand prints
// its help; an unknown command, wrong flags and wrong arguments are usage errors with a hint.
func prepare(app *cli.App, cmd *cobra.Command) {
	usage := func(err error) error { return fault.As(fault.Usage, err) }
	if cmd.CommandPath() == cmd.Root().Name()+" check" {
		// To a monitoring system, 2 would be an alarm.
		usage = func(err error) error { return checkFailed(cmd.OutOrStdout(), err) }
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		hint := cmp.Or(fault.HintOf(err), c.CommandPath()+" --help lists the flags")
		return fault.Hint(usage(err), "%s", hint)
	})
	if !cmd.Runnable() && cmd.HasSubCommands() {
		cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	if cmd.Args == nil && cmd.Name() != "help" {
		cmd.Args = cobra.NoArgs
	}
	if args := cmd.Args; args != nil {
		cmd.Args = func(c *cobra.Command, given []string) error {
			switch err := args(c, given); {
			case err == nil:
				return nil
			case c.HasSubCommands():
				return unknownCommand(c, err, given[0])
			default:
				return fault.Hint(usage(err), "usage: %s", c.UseLine())
			}
		}
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(c *cobra.Command, given []string) error {
			if err := run(c, given); err != nil {
				return cli.Ran(err)
			}
			return nil
		}
	}
	app.CompleteFlags(cmd)
	cmd.SuggestionsMinimumDistance = 2
	for _, sub := range cmd.Commands() {
		prepare(app, sub)
	}
}

// unknownCommand names the command that was most likely meant.
func unknownCommand(c *cobra.Command, err error, name string) error {
	if similar := c.SuggestionsFor(name); name != "" && len(similar) > 0 {
		return fault.Hint(fault.As(fault.Usage, err), "did you mean %s?", strings.Join(similar, " or "))
	}
	return fault.Hint(fault.As(fault.Usage, err), "%s --help lists the commands", c.CommandPath())
}
