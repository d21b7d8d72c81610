package cmd

import (
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
as failures.`,
		Example: "  outboxctl doctor\n  outboxctl doctor -o json | jq '.[] | select(.level != \"ok\")'",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), opts) },
	}
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "exit with 1 on warnings too")
	cli.AddOutputFlags(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

func runDoctor(ctx context.Context, opts *doctorOptions) error {
	cfg, err := opts.app.Config("database.url")
	if err != nil {
		return err
	}
	types, err := opts.app.Registry(ctx)
	if err != nil {
		if kind, _ := fault.KindOf(err); kind == fault.Usage {
			return err // a file that is wrong
		}
		types = registry.New() // the examination will say what is wrong with the database
	}
	findings, err := doctor.Run(ctx, doctorParams(opts.app, cfg, types))
	if err != nil {
		return err
	}
	if err := cli.WriteList(opts.app, opts.output, doctorView(), findings); err != nil {
		return err
	}
	if worst := doctor.Worst(findings); worst == doctor.Fail || (opts.strict && worst == doctor.Warn) {
		return cli.Silent(cli.ExitFailed)
	}
	return nil
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

// doctorView is how findings are listed: none is ever cut.
func doctorView() cli.View[doctor.Finding] {
	colours := map[doctor.Level]cli.Style{doctor.OK: cli.StyleGood, doctor.Warn: cli.StyleWarn, doctor.Fail: cli.StyleError}
	return cli.View[doctor.Finding]{
		ID: func(f doctor.Finding) string { return f.Area + "/" + f.Check },
		Columns: cli.Columns[doctor.Finding]("level, area, check, finding=message:wrap, remedy:wrap").
			Style("level", func(f doctor.Finding) cli.Style { return colours[f.Level] }),
	}
}
