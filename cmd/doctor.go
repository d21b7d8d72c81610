package cmd

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/registry"
)

type doctorOptions struct {
	app    *cli.App
	strict bool
	output cli.Output
}

func newDoctorCmd(app *cli.App) *cobra.Command {
	opts := &doctorOptions{app: app}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine database, schema, broker, Redis and publishers, each finding with its remedy",
		Long: `Examine what the outbox depends on: the server and its settings, schema and enum
against this binary, indexes, vacuum and sessions that pin xmin, leases, publishers, topics and
subscriptions, Redis, and variables left set.

Nothing is changed. The exit code is 1 when something fails, otherwise 0; --strict counts warnings
as failures. With several contexts (--context a,b or all) each finding has its context.`,
		Example: "  outboxctl doctor\n  outboxctl doctor -o json | jq '.[] | select(.level != \"ok\")'",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), opts) },
	}
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "exit with 1 on warnings too")
	cli.AddOutputFlags(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

func runDoctor(ctx context.Context, opts *doctorOptions) error {
	if names := opts.app.Several(); names != nil {
		return doctorOfContexts(ctx, opts, names)
	}
	findings, err := examine(ctx, opts.app)
	if err != nil {
		return err
	}
	view := doctorView("", func(f doctor.Finding) doctor.Finding { return f })
	if err := cli.WriteList(opts.app, opts.output, view, findings); err != nil {
		return err
	}
	return opts.verdict(doctor.Worst(findings))
}

// examine looks at everything that the outbox depends on.
func examine(ctx context.Context, app *cli.App) ([]doctor.Finding, error) {
	cfg, err := app.Config("database.url")
	if err != nil {
		return nil, err
	}
	types, err := app.Registry(ctx)
	if err != nil {
		if kind, _ := fault.KindOf(err); kind == fault.Usage {
			return nil, err // a file that is wrong
		}
		types = registry.New() // the examination will say what is wrong with the database
	}
	return doctor.Run(ctx, doctorParams(app, cfg, types))
}

// verdict is the exit code of the worst finding.
func (opts *doctorOptions) verdict(worst doctor.Level) error {
	if worst == doctor.Fail || (opts.strict && worst == doctor.Warn) {
		return cli.Silent(cli.ExitFailed)
	}
	return nil
}

// contextFinding is a finding as doctor shows it among those of several contexts.
type contextFinding struct {
	Context string `json:"context"`
	doctor.Finding
}

// doctorOfContexts examines each context. One that cannot be examined is an error after the table.
func doctorOfContexts(ctx context.Context, opts *doctorOptions, names []string) error {
	found := cli.InContexts(ctx, opts.app, names, cli.ContextsAtOnce, examine)
	var rows []contextFinding
	var all []doctor.Finding
	for _, c := range found {
		all = append(all, c.Result...)
		for _, f := range c.Result {
			rows = append(rows, contextFinding{c.Context, f})
		}
	}
	view := doctorView("context, ", func(f contextFinding) doctor.Finding { return f.Finding })
	view.ID = func(f contextFinding) string { return f.Context + "/" + f.Area + "/" + f.Check }
	if err := cli.WriteList(opts.app, opts.output, view, rows); err != nil {
		return err
	}
	return cmp.Or(cli.ReportContexts(opts.app, found), opts.verdict(doctor.Worst(all)))
}

func doctorParams(app *cli.App, cfg *cli.Config, types *registry.Registry) doctor.Params {
	p := doctor.Params{
		Registry: types, Now: app.Now,
		Database: app.Reads, ExecMode: cfg.Database.ExecMode, RemoteDatabase: cfg.RemoteDatabase(), MaxAttempts: cfg.Publish.MaxAttempts,
		Kind: cfg.BrokerKind(), Emulator: cfg.Value("pubsub.emulator"), EmulatorOrigin: cfg.Origin("pubsub.emulator"),
		IdempotencyTTL: cfg.Idempotency.TTL, NeedsRedis: cfg.UsesRedis(),
		Redis: func(ctx context.Context) (consume.ServerReport, error) {
			client, err := app.Redis()
			if err != nil {
				return consume.ServerReport{}, err
			}
			if cfg.ReadOnly() {
				return consume.InspectServer(ctx, client, time.Second)
			}
			return consume.CheckServer(ctx, client, time.Second)
		},
	}
	if cfg.BrokerSetUp() {
		p.Broker = func(ctx context.Context) (broker.Broker, []broker.PlannedTopic, error) {
			return planned(ctx, app)
		}
	}
	return p
}

// doctorView is how rows are listed that are findings, or have one behind the columns before.
func doctorView[T any](before string, finding func(T) doctor.Finding) cli.View[T] {
	colours := map[doctor.Level]cli.Style{doctor.OK: cli.StyleGood, doctor.Warn: cli.StyleWarn, doctor.Fail: cli.StyleError}
	return cli.View[T]{
		ID: func(row T) string { return finding(row).Area + "/" + finding(row).Check },
		Columns: cli.Columns[T](before+"level, area, check, finding=message:wrap, remedy:wrap").
			Style("level", func(row T) cli.Style { return colours[finding(row).Level] }),
	}
}
