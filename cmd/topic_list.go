package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
)

func newTopicCmd(app *cli.App) *cobra.Command {
	return group("topic", "Show and create the broker's topics and subscriptions", "",
		newTopicListCmd(app), newTopicEnsureCmd(app))
}

func newTopicListCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show each logical topic with its physical topic and subscriptions",
		Long: `Show each logical topic with the physical topic it is published to, whether the
broker has it, and the subscriptions attached to it. A topic without a subscription forgets what is
published to it.`,
		Example: "  outboxctl topic list\n  outboxctl topic list -o json | jq -r '.[] | select(.state != \"ready\").name'",
	}
	cli.AddConfigFlags(cmd, cli.GroupTopic)
	return listing(app, cmd, true, topicView(), func(ctx context.Context, _ []string) ([]broker.Topic, error) { return listTopics(ctx, app) })
}

func listTopics(ctx context.Context, app *cli.App) ([]broker.Topic, error) {
	client, err := app.Broker(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := app.BrokerPlan(ctx, client)
	if err != nil {
		return nil, err
	}
	found, err := client.List(ctx, plan)
	if err != nil {
		return nil, cli.BrokerError(client, err)
	}
	missing := 0
	for _, t := range found {
		if t.State == broker.TopicMissing {
			missing++
		}
	}
	if missing > 0 {
		fmt.Fprintf(app.Err, "%d of %d topics do not exist; outboxctl topic ensure creates them\n", missing, len(found))
	}
	return found, nil
}

func topicView() cli.View[broker.Topic] {
	return cli.View[broker.Topic]{
		ID: func(t broker.Topic) string { return t.Name },
		Columns: []cli.Column[broker.Topic]{
			{Head: "topic"},
			{Head: "name"},
			{Head: "state", Style: func(t broker.Topic) cli.Style { return stateStyle(t.State) }},
			{Head: "subscriptions", Rest: true, Cell: func(t broker.Topic, _ *cli.CellStyle) string {
				return strings.Join(t.Subscriptions, " ")
			}},
			{Head: "error", Wide: true},
		},
	}
}
