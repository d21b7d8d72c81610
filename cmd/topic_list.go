package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/pubsub"
)

type topicListOptions struct {
	app *App

	output outputFlag
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

func newTopicListCmd(app *App, runF func(context.Context, *topicListOptions) error) *cobra.Command {
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
	addConfigFlags(cmd, groupTopic)
	addOutputFlag(cmd, &opts.output, listFormats()...)
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
	states, err := client.List(ctx, brokerPlan(cfg))
	if err != nil {
		return brokerError(cfg, err)
	}
	rows, missing := topicRows(states)
	if err := writeList(app, opts.output.format, topicView(), rows); err != nil {
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

func topicView() view[topicRow] {
	return view[topicRow]{
		id: func(r topicRow) string { return r.Name },
		columns: []column[topicRow]{
			{head: "topic", cell: func(r topicRow, _ *cellStyle) string { return r.Topic }},
			{head: "name", cell: func(r topicRow, _ *cellStyle) string { return r.Name }},
			{head: "state", cell: func(r topicRow, _ *cellStyle) string { return r.State }},
			{head: "subscriptions", cell: func(r topicRow, _ *cellStyle) string {
				return strings.Join(r.Subscriptions, " ")
			}},
			{head: "error", wide: true, cell: func(r topicRow, _ *cellStyle) string { return r.Error }},
		},
	}
}
