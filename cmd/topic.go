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
	app.AddConfigFlags(cmd, cli.GroupTopic)
	view := cli.View[broker.Topic]{
		ID: func(t broker.Topic) string { return t.Name },
		Columns: cli.Columns[broker.Topic]("topic, name, state, subscriptions:rest, error:wide").
			Style("state", func(t broker.Topic) cli.Style { return stateStyle(t.State) }).
			Cell("subscriptions", func(t broker.Topic) string { return strings.Join(t.Subscriptions, " ") }),
	}
	read := func(ctx context.Context, _ []string) ([]broker.Topic, error) {
		client, plan, err := planned(ctx, app)
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
	return listing(app, cmd, true, view, read)
}

// planned is the broker, with the topics and subscriptions that it should have.
func planned(ctx context.Context, app *cli.App) (broker.Broker, []broker.PlannedTopic, error) {
	client, err := app.Broker(ctx)
	if err != nil {
		return nil, nil, err
	}
	plan, err := app.BrokerPlan(ctx, client)
	return client, plan, err
}

func newTopicEnsureCmd(app *cli.App) *cobra.Command {
	var params broker.EnsureParams
	var output cli.Output
	var topic string
	cmd := &cobra.Command{
		Use:   "ensure",
		Short: "Create the topics and subscriptions that are missing",
		Long: `Create the topics that the configuration names, a subscription for each, and the
dead-letter topic and subscription that take what a consumer cannot handle. What exists is left as
it is, so the command can be run at every deployment, and by two deployers at once. With --ordered
the subscriptions deliver the events of an ordering key in order; that is fixed when a subscription
is created.

--subscription X creates X in place of the topic's own subscription: each consumer that should see
every event needs one. It belongs to the topic in --topic, to the only topic of the catalogue, or to
the built-in topic domain.

A new topic does not get back the subscriptions of one that was deleted. Such a topic is left
alone, which loses nothing: its events wait. The steps that bring it back without losing an event
are printed; the exit code is then 4, or 5 where other topics were created.

What is published to a topic before its subscription exists reaches nobody. Where publishers run
already, pause a new topic first: outboxctl pause --topic.`,
		Example: `  outboxctl topic ensure --dry-run
  outboxctl topic ensure --emulator 127.0.0.1:8085 --project demo
  outboxctl topic ensure --subscription audit-sub --topic orders`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runTopicEnsure(cmd.Context(), app, params, topic, output)
		},
	}
	cmd.Flags().BoolVar(&params.DryRun, "dry-run", false, "show what is missing and create nothing")
	cmd.Flags().BoolVar(&params.Ordered, "ordered", false, "create subscriptions that deliver the events of an ordering key in order")
	cmd.Flags().StringVar(&topic, "topic", "", "create this logical `topic` and what belongs to it only; --subscription is then its")
	cmd.Flags().BoolVar(&params.TopicsOnly, "topics-only", false, "create no subscriptions and no dead-letter topics")
	app.AddConfigFlags(cmd, cli.GroupTopic)
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	return cmd
}

func runTopicEnsure(ctx context.Context, app *cli.App, params broker.EnsureParams, topic string, output cli.Output) error {
	client, err := app.Broker(ctx)
	if err != nil {
		return err
	}
	if params.Plan, err = app.PlanTopic(ctx, client, topic); err != nil {
		return err
	}
	actions, problem := client.Ensure(ctx, params)
	if err := cli.WriteList(app, output, cli.View[broker.Action]{
		ID:      func(a broker.Action) string { return a.Name },
		Columns: cli.Columns[broker.Action]("kind, name, topic:wide, outcome, detail:rest"),
	}, actions); err != nil {
		return err
	}
	counts := map[broker.Outcome]int{}
	for _, a := range actions {
		counts[a.Outcome]++
	}
	if params.DryRun && problem == nil {
		fmt.Fprintf(app.Err, "%d would be created, %d exist\n", counts[broker.OutcomeMissing], counts[broker.OutcomeExists])
	}
	if advice := client.Advice(); counts[broker.OutcomeCreated] > 0 && !params.TopicsOnly && advice != "" {
		fmt.Fprintf(app.Err, "note: %s\n", advice)
	}
	for _, t := range params.Plan {
		sayOrphans(app, t, actions)
	}
	return app.EnsureError(client, problem, actions)
}

// sayOrphans prints the steps that lose no event where subscriptions have lost their topic.
func sayOrphans(app *cli.App, t broker.PlannedTopic, actions []broker.Action) {
	var lost []string
	for _, a := range actions {
		if a.Outcome == broker.OutcomeOrphaned && a.Topic == t.Name {
			lost = append(lost, a.Name)
		}
	}
	if lost == nil {
		return
	}
	step := func(format string, args ...any) { fmt.Fprintf(app.Err, "  "+format+"\n", args...) }
	fmt.Fprintf(app.Err, "topic %s was left alone: a new one would not reach %s. These steps lose no event:\n", t.Name, strings.Join(lost, ", "))
	for _, topic := range t.Logical {
		step("outboxctl pause --topic %s --note 'its subscriptions are replaced'", topic)
	}
	step("# let consumers read what is left in them, and note their settings: gcloud pubsub subscriptions describe %s", lost[0])
	step("gcloud pubsub subscriptions delete %s", strings.Join(lost, " "))
	step("outboxctl topic ensure --topic %s", t.Logical[0])
	for _, name := range lost {
		if name != t.Subscription && name != t.DeadLetterSubscription {
			step("outboxctl topic ensure --topic %s --subscription %s", t.Logical[0], name)
		}
	}
	for _, topic := range t.Logical {
		step("outboxctl resume --topic %s", topic)
	}
	step("# publish once more what was published since the topic was deleted; consumers skip what they have handled")
	for _, topic := range t.Logical {
		step("outboxctl event republish --topic %s --since 7d", topic)
	}
}
