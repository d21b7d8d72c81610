package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/pubsub"
)

type topicEnsureOptions struct {
	app *cli.App

	dryRun     bool
	topicsOnly bool
	output     cli.OutputFlag
}

// ensureRow is one topic or subscription as topic ensure reports it.
type ensureRow struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Topic   string `json:"topic"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`
}

func newTopicEnsureCmd(app *cli.App, runF func(context.Context, *topicEnsureOptions) error) *cobra.Command {
	opts := &topicEnsureOptions{app: app}
	cmd := &cobra.Command{
		Use:   "ensure",
		Short: "Create the topics and subscriptions that are missing",
		Long: `Create the topics that the configuration names, a subscription for each, and the dead-letter topic and
subscription that take what a consumer cannot handle. What exists is left as it is, so the command can be run at every
deployment, and by two deployers at once.`,
		Example: "  outboxctl topic ensure --dry-run\n  outboxctl topic ensure --emulator 127.0.0.1:8085 --project demo",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), opts) },
	}
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "show what is missing and create nothing")
	cmd.Flags().BoolVar(&opts.topicsOnly, "topics-only", false, "create no subscriptions and no dead-letter topics")
	cli.AddConfigFlags(cmd, cli.GroupTopic)
	cli.AddOutputFlag(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

func runTopicEnsure(ctx context.Context, opts *topicEnsureOptions) error {
	app := opts.app
	cfg, err := app.Config("pubsub.project")
	if err != nil {
		return err
	}
	client, err := app.Broker(ctx)
	if err != nil {
		return err
	}
	actions, problem := client.Ensure(ctx, pubsub.EnsureParams{
		Plan: cli.BrokerPlan(cfg), DryRun: opts.dryRun, TopicsOnly: opts.topicsOnly,
	})
	rows := make([]ensureRow, len(actions))
	counts := map[pubsub.Outcome]int{}
	for i, a := range actions {
		rows[i] = ensureRow{Kind: a.Kind, Name: a.Name, Topic: a.Topic, Outcome: string(a.Outcome), Detail: a.Detail}
		counts[a.Outcome]++
	}
	if err := cli.WriteList(app, opts.output.Format, ensureView(), rows); err != nil {
		return err
	}
	if opts.dryRun && problem == nil {
		fmt.Fprintf(app.Err, "%d would be created, %d exist\n", counts[pubsub.OutcomeMissing], counts[pubsub.OutcomeExists])
	}
	if counts[pubsub.OutcomeCreated] > 0 && !opts.topicsOnly && !client.Emulated() {
		fmt.Fprintf(app.Err, "note: dead letters move once Pub/Sub's service account of project %s may publish to the "+
			"dead-letter topics (roles/pubsub.publisher) and acknowledge on the subscriptions (roles/pubsub.subscriber)\n", cfg.PubSub.Project)
	}
	return ensureError(cfg, problem, counts)
}

// ensureError tells apart the broker that is away, the one that refused everything, and the half-done job.
func ensureError(cfg *cli.Config, problem error, counts map[pubsub.Outcome]int) error {
	if problem == nil {
		return nil
	}
	if !errors.Is(problem, pubsub.ErrIncomplete) {
		return cli.BrokerError(cfg, problem)
	}
	bad := counts[pubsub.OutcomeFailed] + counts[pubsub.OutcomeDiffers]
	kind := fault.Precondition
	if counts[pubsub.OutcomeCreated] > 0 {
		kind = fault.Partial
	}
	return fault.Hint(fault.As(kind, fmt.Errorf("%d topics or subscriptions are not as planned", bad)),
		"the column detail says why; the account needs roles/pubsub.editor to create them")
}

func ensureView() cli.View[ensureRow] {
	return cli.View[ensureRow]{
		ID: func(r ensureRow) string { return r.Name },
		Columns: []cli.Column[ensureRow]{
			{Head: "kind", Cell: func(r ensureRow, _ *cli.CellStyle) string { return r.Kind }},
			{Head: "name", Cell: func(r ensureRow, _ *cli.CellStyle) string { return r.Name }},
			{Head: "topic", Wide: true, Cell: func(r ensureRow, _ *cli.CellStyle) string { return r.Topic }},
			{Head: "outcome", Cell: func(r ensureRow, _ *cli.CellStyle) string { return r.Outcome }},
			{Head: "detail", Cell: func(r ensureRow, _ *cli.CellStyle) string { return r.Detail }},
		},
	}
}
