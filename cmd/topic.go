package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
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

A subscription whose topic was deleted is replaced, with its settings: a new topic of the same name
would not reach it. While a topic is created, or its subscriptions replaced, publishing to it is
paused in the database, so that no event is published before its subscriptions exist. If the command
is interrupted the pause stays; run it again. What the replaced subscriptions may have missed is
named, with the command that publishes it once more.`,
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
	cli.AddConfigFlags(cmd, cli.GroupTopic)
	cli.AddOutputFlags(cmd, &output, cli.ListFormats()...)
	return cmd
}

func runTopicEnsure(ctx context.Context, app *cli.App, params broker.EnsureParams, topic string, output cli.Output) error {
	cfg, err := app.Config()
	if err != nil {
		return err
	}
	client, err := app.Broker(ctx)
	if err != nil {
		return err
	}
	if params.Plan, err = app.PlanTopic(ctx, client, topic); err != nil {
		return err
	}
	held := map[string]bool{}
	if cfg.Database.URL != "" {
		params.Hold = func(ctx context.Context, topics []string) (func(context.Context) error, error) {
			return holdTopics(ctx, app, topics, held)
		}
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
		fmt.Fprintf(app.Err, "%d would be created, %d would be replaced, %d exist\n",
			counts[broker.OutcomeMissing], counts[broker.OutcomeOrphaned], counts[broker.OutcomeExists])
	}
	made := counts[broker.OutcomeCreated] + counts[broker.OutcomeReplaced]
	if advice := client.Advice(); made > 0 && !params.TopicsOnly && advice != "" {
		fmt.Fprintf(app.Err, "note: %s\n", advice)
	}
	for _, topic := range slices.Sorted(maps.Keys(held)) {
		fmt.Fprintf(app.Err, "note: topic %s stays paused until its subscriptions exist: run outboxctl topic ensure again\n", topic)
	}
	if counts[broker.OutcomeReplaced] > 0 {
		if err := sayUnreached(ctx, app, params.Plan, actions); err != nil {
			return err
		}
	}
	return app.EnsureError(client, problem, actions)
}

// holdTopics keeps publishers from sending to topics. held has those that are not released yet.
func holdTopics(ctx context.Context, app *cli.App, topics []string, held map[string]bool) (func(context.Context) error, error) {
	box, err := app.Outbox(ctx)
	if err != nil {
		return nil, err
	}
	release, err := box.HoldTopics(ctx, outbox.HoldParams{Topics: topics, Actor: app.Actor(cli.AuditFlags{}), Waiting: func() {
		fmt.Fprintf(app.Err, "waiting until no publisher sends to %s\n", strings.Join(topics, ", "))
	}})
	if err != nil {
		return nil, err
	}
	for _, topic := range topics {
		held[topic] = true
	}
	return func(ctx context.Context) error {
		if err := release(ctx); err != nil {
			return err
		}
		maps.DeleteFunc(held, func(topic string, _ bool) bool { return slices.Contains(topics, topic) })
		return nil
	}, nil
}

// sayUnreached names what was published while replaced subscriptions did not get it, and the
// command that publishes it once more.
func sayUnreached(ctx context.Context, app *cli.App, plan []broker.PlannedTopic, actions []broker.Action) error {
	box, err := app.Outbox(ctx)
	if err != nil {
		return err
	}
	for _, t := range plan {
		var kept time.Duration
		for _, a := range actions {
			if a.Outcome == broker.OutcomeReplaced && a.Topic == t.Name {
				kept = max(kept, cmp.Or(a.Retention, app.BrokerKind().Retention))
			}
		}
		for _, topic := range t.Logical {
			if kept == 0 {
				continue
			}
			u, err := box.Unreached(ctx, topic, kept)
			if err != nil {
				return err
			}
			if u.Events > 0 {
				fmt.Fprintf(app.Err, "note: %s of topic %s, published since %s, may not have reached the replaced subscriptions. "+
					"Publish them once more; consumers skip what they have handled. Was the topic deleted earlier, give an earlier --since:\n  %s\n",
					words.Counted(u.Events, "event"), topic, u.Since.UTC().Format(time.RFC3339), u.Command())
			}
		}
	}
	return nil
}
