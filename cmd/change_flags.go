package cmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// rateFlag is a number of rows per second: 200, 200/s, 30/m.
type rateFlag float64

func (f *rateFlag) Type() string { return "rate" }
func (f *rateFlag) String() string {
	if *f == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*f), 'g', -1, 64) + "/s"
}

func (f *rateFlag) Set(text string) (err error) {
	*(*float64)(f), err = words.ParseRate(text)
	return err
}

// percentFlag is a share: 5% or 0.05.
type percentFlag struct {
	share float64
	set   bool
}

func (f *percentFlag) Type() string { return "percent" }
func (f *percentFlag) String() string {
	return strconv.FormatFloat(f.share*100, 'g', -1, 64) + "%"
}

func (f *percentFlag) Set(text string) (err error) {
	f.set = true
	f.share, err = words.ParseShare(text)
	return err
}

// finishChange gives a command that changes the rows it is told its run function and its flags.
func finishChange(cmd *cobra.Command, o *changeOptions) {
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
	cli.KnowFields[dlq.Plan](&o.output)
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
	cli.AddOutputFlags(cmd, &o.output, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatCSV, cli.FormatID)
	cli.KnowFields[dlq.Outcome](&o.output)
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

// addRampFlags gives a command what sends events in steps and watches them.
func addRampFlags(cmd *cobra.Command, o *changeOptions) {
	flags, watch := cmd.Flags(), dlq.DefaultWatch()
	o.abortIfDead.share = watch.MaxDead
	flags.BoolVar(&o.ramp, "ramp", false, "go in growing steps (1, 2, 5, 20, …) and wait for the outcome of each")
	flags.Var(&o.abortIfDead, "abort-if-dead", "with --ramp, which it implies: stop when more than this share dies again")
	cli.AddLimit(cmd, &o.watchFor, "watch-for", watch.For, time.Millisecond, "how long --ramp waits for the outcome of a step")
}

// readIDs checks ids given as arguments, or with - as lines on standard input, all of them before
// anything is done.
func readIDs(in io.Reader, args []string) ([]string, error) {
	if !slices.Contains(args, "-") {
		return checkIDs(args, "")
	}
	if len(args) > 1 {
		return nil, fault.Usagef("- reads the ids from standard input; give no others")
	}
	var lines []string
	scan := bufio.NewScanner(in)
	for scan.Scan() {
		lines = append(lines, strings.TrimSpace(scan.Text()))
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read ids: %w", err)
	}
	return checkIDs(lines, "line")
}

// checkIDs returns each id once, however often and in whatever case it was written: what is
// announced is counted by them.
func checkIDs(texts []string, where string) ([]string, error) {
	ids := make([]string, 0, len(texts))
	seen := make(map[string]bool, len(texts))
	for i, text := range texts {
		if text == "" && where != "" {
			continue
		}
		id, err := outbox.ParseID(text)
		if err != nil && where != "" {
			return nil, fault.As(fault.Usage, fmt.Errorf("%s %d: %w", where, i+1, err))
		}
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// view is how outcomes are listed; what became of an event only where that is waited for.
func (o *changeOptions) view(ctx context.Context, box *dlq.Outbox) cli.View[dlq.Outcome] {
	// An event's id is said once to a person; on a pipe every change has the same columns.
	events := o.app.OutTTY && o.action.OnEvents()
	v := cli.View[dlq.Outcome]{
		Shorten: shortIDs(ctx, box),
		Columns: []cli.Column[dlq.Outcome]{
			{Head: "id", ID: true},
			{Head: "event", Field: "eventId", ID: true, Wide: events},
			{Head: "outcome"},
		},
	}
	if o.wait {
		v.Columns = append(v.Columns, cli.Column[dlq.Outcome]{
			Head: "became", Style: func(o dlq.Outcome) cli.Style { return stateStyle(o.Became) },
		})
	}
	return v
}
