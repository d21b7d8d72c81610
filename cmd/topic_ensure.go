package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/pubsub"
)

func newTopicEnsureCmd(app *cli.App) *cobra.Command {
	var params pubsub.EnsureParams
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "ensure",
		Short: "Create the topics and subscriptions that are missing",
		Long: `Create the topics that the configuration names, a subscription for each, and the dead-letter topic and
subscription that take what a consumer cannot handle. What exists is left as it is, so the command can be run at every
deployment, and by two deployers at once. With --ordered the subscriptions deliver the events of an ordering key in order;
that is fixed when a subscription is created.`,
		Example: "  outboxctl topic ensure --dry-run\n  outboxctl topic ensure --emulator 127.0.0.1:8085 --project demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runTopicEnsure(cmd.Context(), app, params, output)
		},
	}
	cmd.Flags().BoolVar(&params.DryRun, "dry-run", false, "show what is missing and create nothing")
	cmd.Flags().BoolVar(&params.Ordered, "ordered", false, "create subscriptions that deliver the events of an ordering key in order")
	cmd.Flags().BoolVar(&params.TopicsOnly, "topics-only", false, "create no subscriptions and no dead-letter topics")
	cli.AddConfigFlags(cmd, cli.GroupTopic)
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	return cmd
}

func runTopicEnsure(ctx context.Context, app *cli.App, params pubsub.EnsureParams, output cli.Output) error {
	cfg, err := app.Config("pubsub.project")
	if err != nil {
		return err
	}
	client, err := app.Broker(ctx)
	if err != nil {
		return err
	}
	if params.Plan, err = app.BrokerPlan(ctx); err != nil {
		return err
	}
	actions, problem := client.Ensure(ctx, params)
	if err := cli.WriteList(app, output, ensureView(), actions); err != nil {
		return err
	}
	counts := map[pubsub.Outcome]int{}
	for _, a := range actions {
		counts[a.Outcome]++
	}
	if params.DryRun && problem == nil {
		fmt.Fprintf(app.Err, "%d would be created, %d exist\n", counts[pubsub.OutcomeMissing], counts[pubsub.OutcomeExists])
	}
	if counts[pubsub.OutcomeCreated] > 0 && !params.TopicsOnly && !client.Emulated() {
		fmt.Fprintf(app.Err, "note: dead letters move once Pub/Sub's service account of project %s may publish to the "+
			"dead-letter topics (roles/pubsub.publisher) and acknowledge on the subscriptions (roles/pubsub.subscriber)\n", cfg.PubSub.Project)
	}
	return cli.EnsureError(cfg, problem, actions)
}

func ensureView() cli.View[pubsub.Action] {
	return cli.View[pubsub.Action]{
		ID: func(a pubsub.Action) string { return a.Name },
		Columns: []cli.Column[pubsub.Action]{
			{Head: "kind", Cell: func(a pubsub.Action, _ *cli.CellStyle) string { return a.Kind }},
			{Head: "name", Cell: func(a pubsub.Action, _ *cli.CellStyle) string { return a.Name }},
			{Head: "topic", Wide: true, Cell: func(a pubsub.Action, _ *cli.CellStyle) string { return a.Topic }},
			{Head: "outcome", Cell: func(a pubsub.Action, _ *cli.CellStyle) string { return string(a.Outcome) }},
			{Head: "detail", Rest: true, Cell: func(a pubsub.Action, _ *cli.CellStyle) string { return a.Detail }},
		},
	}
}
