package cmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
)

// changeFlags gives a command a part of what goes with a change.
type changeFlags = func(*cobra.Command, *changeOptions)

// changing completes a command that changes the rows it is told.
func changing(cmd *cobra.Command, o *changeOptions, flags ...changeFlags) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.ids = args
		return runChange(cmd.Context(), o)
	}
	cmd.ValidArgsFunction = cli.CompleteDLQIDs(o.app, o.action.State())
	if o.action.OnEvents() {
		cmd.ValidArgsFunction = cli.CompleteEventIDs(o.app, o.action.State())
	}
	addChangeFlags(cmd, o)
	cmd.Flags().BoolVar(&o.plan, "plan", false, "only make the plan and print its id; outboxctl plan run runs it")
	for _, add := range flags {
		add(cmd, o)
	}
	return cmd
}

// addChangeFlags gives a command what every change has.
func addChangeFlags(cmd *cobra.Command, o *changeOptions) {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would happen to each row, and change nothing")
	cli.AddYesFlag(cmd, &o.yes)
	cli.AddAuditFlags(cmd, &o.audit)
	addRunFlags(cmd, o)
}

// addRunFlags gives a command that runs a plan its pace and its output.
func addRunFlags(cmd *cobra.Command, o *changeOptions) {
	cmd.Flags().Var(&o.rate, "rate", "change at most so many rows per second, such as 200/s")
	cli.AddOutputFlags(cmd, &o.output, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatID)
}

// addWaitFlags gives a command that sends events --wait.
func addWaitFlags(cmd *cobra.Command, o *changeOptions) {
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until it is known what became of the events; exit code 5 unless all were published")
	cli.AddLimit(cmd, &o.timeout, "timeout", 5*time.Minute, time.Millisecond, "how long --wait waits")
}

// addReplayFlags gives a command what goes with sending events again.
func addReplayFlags(cmd *cobra.Command, o *changeOptions) {
	addRampFlags(cmd, o)
	addWaitFlags(cmd, o)
	cmd.Flags().StringSliceVar(&o.checkConsumers, "check-consumers", nil, "first show how many of the set these `consumers` have processed already")
}

func addForceFlag(cmd *cobra.Command, o *changeOptions) {
	cmd.Flags().BoolVar(&o.force, "force", false, "replay also what would fail again unchanged")
}

// addRampFlags gives a command what sends events in steps and watches them.
func addRampFlags(cmd *cobra.Command, o *changeOptions) {
	flags, watch := cmd.Flags(), dlq.DefaultWatch()
	o.abortIfDead.Share = watch.MaxDead
	flags.BoolVar(&o.ramp, "ramp", false, "go in growing steps (1, 2, 5, 20, …) and wait for the outcome of each")
	flags.Var(&o.abortIfDead, "abort-if-dead", "with --ramp, which it implies: stop when more than this share dies again")
	cli.AddLimit(cmd, &o.watchFor, "watch-for", watch.For, time.Millisecond, "how long --ramp waits for the outcome of a step")
}

// view is how outcomes are listed; what became of an event only where that is waited for.
func (o *changeOptions) view() cli.View[dlq.Outcome] {
	columns := "id:id, event=eventId:id, outcome"
	if o.app.OutTTY && o.action.OnEvents() {
		// An event's id is said once to a person; on a pipe every change has the same columns.
		columns = "id:id, event=eventId:id:wide, outcome"
	}
	v := cli.View[dlq.Outcome]{Columns: cli.Columns[dlq.Outcome](columns)}
	if o.wait {
		became := func(o dlq.Outcome) cli.Style { return stateStyle(o.Became) }
		v.Columns = append(v.Columns, cli.Columns[dlq.Outcome]("became").Style("became", became)...)
	}
	return v
}
