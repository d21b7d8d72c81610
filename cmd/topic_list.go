package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/pubsub"
)

type topicListOptions struct {
	app *cli.App

	output cli.OutputFlag
}

// topicRow is one logical topic as topic list shows it.
type topicRow struct {
	Topic         string   `json:"topic"`
	Name          string   `json:"name"`
	State         string   `json:"state"`
	Subscriptions []string `json:"subscriptions"`
	Error         string   `json:"error,omitempty"`
}

// The states of a topic.
const (
	topicReady   = "ready"
	topicMissing = "missing"
	topicRefused = "refused"
)

func newTopicListCmd(app *cli.App, runF func(context.Context, *topicListOptions) error) *cobra.Command {
	opts := &topicListOptions{app: app}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show each logical topic with its physical topic and subscriptions",
		Long: `Show each logical topic with the physical topic it is published to, whether the broker has it, and the
subscriptions attached to it. A topic without a subscription forgets what is published to it.`,
		Example: "  outboxctl topic list\n  outboxctl topic list -o json | jq -r '.[] | select(.state != \"ready\").name'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), opts) },
	}
	cli.AddConfigFlags(cmd, cli.GroupTopic)
	cli.AddOutputFlag(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

func runTopicList(ctx context.Context, opts *topicListOptions) error {
	app := opts.app
	cfg, err := app.Config("pubsub.project")
	if err != nil {
		return err
	}
	client, err := app.Broker(ctx)
	if err != nil {
		return err
	}
	states, err := client.List(ctx, cli.BrokerPlan(cfg))
	if err != nil {
		return cli.BrokerError(cfg, err)
	}
	rows, missing := topicRows(states)
	if err := cli.WriteList(app, opts.output.Format, topicView(), rows); err != nil {
		return err
	}
	if missing > 0 {
		fmt.Fprintf(app.Err, "%d of %d topics do not exist; outboxctl topic ensure creates them\n", missing, len(rows))
	}
	return nil
}

func topicRows(states []pubsub.TopicState) (rows []topicRow, missing int) {
	for _, s := range states {
		for _, logical := range s.Logical {
			row := topicRow{Topic: logical, Name: s.Name, State: topicReady, Subscriptions: s.Subscriptions}
			switch {
			case s.Err != nil:
				row.State, row.Error = topicRefused, s.Err.Error()
			case !s.Exists:
				row.State = topicMissing
				missing++
			}
			if row.Subscriptions == nil {
				row.Subscriptions = []string{}
			}
			rows = append(rows, row)
		}
	}
	return rows, missing
}

func topicView() cli.View[topicRow] {
	return cli.View[topicRow]{
		ID: func(r topicRow) string { return r.Name },
		Columns: []cli.Column[topicRow]{
			{Head: "topic", Cell: func(r topicRow, _ *cli.CellStyle) string { return r.Topic }},
			{Head: "name", Cell: func(r topicRow, _ *cli.CellStyle) string { return r.Name }},
			{Head: "state", Cell: func(r topicRow, _ *cli.CellStyle) string { return r.State }},
			{Head: "subscriptions", Cell: func(r topicRow, _ *cli.CellStyle) string {
				return strings.Join(r.Subscriptions, " ")
			}},
			{Head: "error", Wide: true, Cell: func(r topicRow, _ *cli.CellStyle) string { return r.Error }},
		},
	}
}
