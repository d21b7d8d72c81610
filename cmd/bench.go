package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

type benchOptions struct {
	app *cli.App

	params   bench.Params
	mode     string
	duration cli.DurationFlag
	output   cli.Output
}

func newBenchCmd(app *cli.App) *cobra.Command {
	opts := &benchOptions{app: app, mode: bench.Drain().Name}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure publishing and consuming on this machine, on a database of its own",
		Long: `Emit events into a scratch database, publish them with the real dispatcher to the
Pub/Sub fake, and print what that cost. Each run compares what the broker received with what the
table holds: every event once, with the stored bytes and attributes. A run that is not exact fails,
however fast it was.

A private PostgreSQL with its default settings is started for it. With --database-url, and only with
the flag, a scratch database is created on that server instead, and dropped afterwards.

With --broker, and only with the flag, events go elsewhere: to the NATS, Kafka or RabbitMQ that is
configured, where a new topic is created and read back, or to a service (http) or a command (exec)
of the bench's own.

Modes:
` + benchHelp() + `
With --check the mode's criteria decide the exit code: 1 when one fails.`,
		Example: `  outboxctl bench
  outboxctl bench --mode ordered --check
  outboxctl bench --mode steady --rate 200 --duration 30s -o json
  outboxctl bench --mode publishers --publishers 3 --processes
  outboxctl bench --mode consume --check
  NATS_URL=nats://127.0.0.1:4222 outboxctl bench --broker nats`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBench(cmd.Context(), opts) },
	}
	flags, p := cmd.Flags(), &opts.params
	cli.AddChoice(flags, &opts.mode, "mode", "what to measure", benchModes()...)
	flags.IntVar(&p.Events, "events", 0, "events to publish (default 50000, publishers 100000, consume 10000)")
	flags.IntVar(&p.PayloadBytes, "payload", 0, "about how many bytes each event's payload has (default 400)")
	flags.IntVar(&p.Publishers, "publishers", 0, "publishers that share the work (default 1, mode publishers 3)")
	flags.BoolVar(&p.Processes, "processes", false, "run each publisher as a process of its own and measure its memory")
	flags.IntVar(&p.Rate, "rate", 0, "events per second of mode steady (default 200)")
	flags.Var(&opts.duration, "duration", "how long mode steady lasts (default 20s)")
	flags.IntVar(&p.Keys, "keys", 0, "ordering keys of mode ordered (default one for two events)")
	flags.IntVar(&p.Workers, "workers", 0, "claim-publish-settle pipelines of each publisher")
	flags.IntVar(&p.BatchSize, "batch-size", 0, "rows per claim to begin with")
	flags.BoolVar(&p.NoWake, "no-wake", false, "leave publishers to polling in mode steady")
	flags.BoolVar(&p.Check, "check", false, "judge the result and fail when a criterion is not met")
	cli.AddOutputFlags(cmd, &opts.output, cli.ObjectFormats()...)
	return cmd
}

func benchModes() (names []string) {
	for _, m := range bench.Modes() {
		names = append(names, m.Name)
	}
	return names
}

// benchHelp is a line for each mode.
func benchHelp() string {
	var lines strings.Builder
	for _, m := range bench.Modes() {
		fmt.Fprintf(&lines, "  %-11s %s\n", m.Name, m.Summary)
	}
	return lines.String()
}

func runBench(ctx context.Context, opts *benchOptions) error {
	app, p := opts.app, opts.params
	p.Mode = bench.Modes()[slices.Index(benchModes(), opts.mode)]
	if opts.duration.Value != nil {
		p.Duration = *opts.duration.Value
	}
	// Only the flag counts: a variable that points at production must not make a load test of it.
	if text, given := app.Flag("database-url"); given {
		if err := cli.IsDatabaseURL(text); err != nil {
			return fault.Usagef("--database-url: %w", err)
		}
		p.DatabaseURL = text
	}
	if name, given := app.Flag("broker"); given {
		if err := words.OneOf("--broker", name, cli.BrokerNames()); err != nil {
			return err
		}
		p.Destination = bench.Destination{Name: name, Open: app.Broker}
	}
	if p.Processes {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		p.Executable = exe
	}
	p.Progress = func(format string, args ...any) {
		fmt.Fprintf(app.Err, "%s %s\n", app.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}
	report, err := bench.Run(ctx, p)
	if invalid := (*bench.ParamError)(nil); errors.As(err, &invalid) {
		return fault.As(fault.Usage, err)
	}
	if report != nil {
		text := func(p *cli.Page) { _ = report.WriteText(p) } // the page keeps the error
		if printErr := cli.WriteObject(app, opts.output, report, text); printErr != nil {
			return printErr
		}
	}
	switch {
	case err != nil:
		return err
	case !report.Passed():
		return errors.New("a criterion is not met")
	}
	return nil
}
