package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/pubsub"
)

type topicEnsureOptions struct {
	app *App

	dryRun     bool
	topicsOnly bool
	output     outputFlag
}

// ensureRow is one topic or subscription as topic ensure reports it.
type ensureRow struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Topic   string `json:"topic"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`
}

func newTopicEnsureCmd(app *App, runF func(context.Context, *topicEnsureOptions) error) *cobra.Command {
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
	addConfigFlags(cmd, groupTopic)
	addOutputFlag(cmd, &opts.output, listFormats()...)
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
		Plan: brokerPlan(cfg), DryRun: opts.dryRun, TopicsOnly: opts.topicsOnly,
	})
	rows := make([]ensureRow, len(actions))
	counts := map[pubsub.Outcome]int{}
	for i, a := range actions {
		rows[i] = ensureRow{Kind: a.Kind, Name: a.Name, Topic: a.Topic, Outcome: string(a.Outcome), Detail: a.Detail}
		counts[a.Outcome]++
	}
	if err := writeList(app, opts.output.format, ensureView(), rows); err != nil {
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
func ensureError(cfg *Config, problem error, counts map[pubsub.Outcome]int) error {
	if problem == nil {
		return nil
	}
	if !errors.Is(problem, pubsub.ErrIncomplete) {
		return brokerError(cfg, problem)
	}
	bad := counts[pubsub.OutcomeFailed] + counts[pubsub.OutcomeDiffers]
	code := exitPrecondition
	if counts[pubsub.OutcomeCreated] > 0 {
		code = exitPartial
	}
	return withHint(withCode(code, fmt.Errorf("%d topics or subscriptions are not as planned", bad)),
		"the column detail says why; the account needs roles/pubsub.editor to create them")
}

func ensureView() view[ensureRow] {
	return view[ensureRow]{
		id: func(r ensureRow) string { return r.Name },
		columns: []column[ensureRow]{
			{head: "kind", cell: func(r ensureRow, _ *cellStyle) string { return r.Kind }},
			{head: "name", cell: func(r ensureRow, _ *cellStyle) string { return r.Name }},
			{head: "topic", wide: true, cell: func(r ensureRow, _ *cellStyle) string { return r.Topic }},
			{head: "outcome", cell: func(r ensureRow, _ *cellStyle) string { return r.Outcome }},
			{head: "detail", cell: func(r ensureRow, _ *cellStyle) string { return r.Detail }},
		},
	}
}
