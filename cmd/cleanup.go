package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cleanup"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

type cleanupOptions struct {
	app *cli.App

	olderThan, dlqOlderThan, inboxOlderThan, auditOlderThan cli.DurationFlag

	pause, maxReplicaLag time.Duration
	maxRows              int64
	dryRun               bool
	again                string // the command line
	doFlags
}

func newCleanupCmd(app *cli.App) *cobra.Command {
	opts := &cleanupOptions{app: app}
	cmd := &cobra.Command{
		Use:   "cleanup --older-than 30d",
		Short: "Remove events published long ago, and dead letters that were handled",
		Long: `Remove events that were published longer ago than --older-than, with what consumers
failed on before that and is gone, and with --dlq-older-than dead letters that were replayed or
discarded longer ago than that. An event that is not published and a dead letter that is open are
never removed.

--inbox-older-than removes the inbox rows that consumers wrote beside their effects. Such a row
keeps an effect single when Redis has forgotten the event, so it must not go before Redis may
forget: less than idempotency.ttl is refused.

--audit-older-than removes what the audit trail says about long ago. The last 7 days are always
kept.

It works in short transactions and may be stopped and started again. One cleaner works at a time,
its pauses included: a second one ends at once with exit code 4. --older-than counts as
confirmation, so that a plain cron line works; only on a terminal an age below a day is asked about.
It says nothing when there is nothing to do. A run leaves one row in the audit trail, with what it
removed.`,
		Example: `  outboxctl cleanup --older-than 30d
  outboxctl cleanup --older-than 30d --dlq-older-than 90d --dry-run
  outboxctl cleanup --older-than 30d --inbox-older-than 100d --audit-older-than 400d
  outboxctl cleanup --older-than 2w --pause 200ms --max-rows 100000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.again = cli.CommandLine(cmd, nil, nil)
			return runCleanup(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.Var(&opts.olderThan, "older-than", "remove events published longer ago than this")
	flags.Var(&opts.dlqOlderThan, "dlq-older-than", "remove dead letters handled longer ago than this")
	flags.Var(&opts.inboxOlderThan, "inbox-older-than", "remove consumers' inbox rows older than this, at least idempotency.ttl")
	flags.Var(&opts.auditOlderThan, "audit-older-than", "remove audit rows older than this, at least 7d")
	cli.AddLimit(cmd, &opts.pause, "pause", 0, 0, "rest between two batches")
	cli.AddLimit(cmd, &opts.maxReplicaLag, "max-replica-lag", 10*time.Second, 0, "wait while a replica is further behind (0: do not check)")
	flags.Int64Var(&opts.maxRows, "max-rows", 0, "stop after this many rows (0: no limit)")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "count what would be removed, and remove nothing")
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask about an age below a day")
	cli.AddAuditFlags(cmd, &opts.audit)
	cli.AddOutputFlags(cmd, &opts.output, cli.ObjectFormats()...)
	return cmd
}

// runCleanup removes what is old, or counts it.
func runCleanup(ctx context.Context, o *cleanupOptions) error {
	app := o.app
	cfg, err := app.Config("database.url")
	if err != nil {
		return err
	}
	params := cleanup.Params{
		OlderThan: o.olderThan.Value, DLQOlderThan: o.dlqOlderThan.Value, InboxOlderThan: o.inboxOlderThan.Value,
		AuditOlderThan: o.auditOlderThan.Value, MaxRows: o.maxRows, Pause: o.pause, MaxReplicaLag: o.maxReplicaLag, Actor: app.Actor(o.audit), Note: o.audit.Note,
		IdempotencyTTL: cfg.Idempotency.TTL,
	}
	if err := params.Validate(); err != nil {
		return err
	}
	db, err := app.Reads(ctx)
	if err != nil {
		return err
	}
	if err := outbox.CheckTables(ctx, db); err != nil { // within limits, which removing has not
		return err
	}
	cleaner := cleanup.New(db.Pool)
	if o.dryRun {
		plan, err := cleaner.Plan(ctx, params)
		if err != nil {
			return err
		}
		return cli.WriteObject(app, o.output, plan, func(p *cli.Page) { sayCleanupPlan(p, plan) })
	}
	if err := o.confirm(ctx, cleaner, params); err != nil {
		return err
	}
	bar := app.NewProgress("removed", -1)
	params.OnBatch = func(b cleanup.Batch) { bar.Add(b.Deleted) }
	result, err := cleaner.Run(ctx, params)
	bar.Done()
	if ctx.Err() != nil { // of which the exit code alone tells
		fmt.Fprintf(app.Err, "interrupted after %s; continue with: %s\n", words.Counted(result.Rows(), "row"), o.again)
	}
	return cmp.Or(cli.WriteObject(app, o.output, result, func(p *cli.Page) { sayCleanup(p, result, app.Where()) }), err)
}

// confirm asks a person about an age below a day, which is more likely a slip than a retention.
func (o *cleanupOptions) confirm(ctx context.Context, cleaner *cleanup.Cleaner, params cleanup.Params) error {
	app := o.app
	young := slices.ContainsFunc([]*time.Duration{params.OlderThan, params.DLQOlderThan, params.InboxOlderThan, params.AuditOlderThan},
		func(age *time.Duration) bool { return age != nil && *age < 24*time.Hour })
	if !young || o.yes || !app.InTTY || !app.ErrTTY {
		return nil
	}
	plan, err := cleaner.Plan(ctx, params)
	if err != nil {
		return err
	}
	sayCleanupPlan(app.Err, plan)
	return app.Confirm(ctx, false, plan.Rows(), fmt.Sprintf("remove %s, some of less than a day ago", words.Counted(plan.Rows(), "row")))
}

func sayCleanup(w io.Writer, r cleanup.Result, in string) {
	if n := humanize.Comma; r.Rows() > 0 {
		fmt.Fprintf(w, "removed %s published events, %s consumers' failures, %s handled dead letters "+
			"(%s dead events with them), %s inbox rows and %s audit rows in %s batches%s\n", n(r.Events),
			n(r.Failures), n(r.DLQ), n(r.DeadEvents), n(r.Inbox), n(r.Audit), n(int64(r.Batches)), in)
	}
}

func sayCleanupPlan(w io.Writer, plan cleanup.Plan) {
	plan.Each(func(kind string, total int64, counts []cleanup.Count) {
		fmt.Fprintf(w, "would remove %s %s\n", humanize.Comma(total), kind)
		for _, c := range counts {
			fmt.Fprintf(w, "  %s\t%s\n", safetext.Line(c.Of()), humanize.Comma(c.Count))
		}
	})
}
