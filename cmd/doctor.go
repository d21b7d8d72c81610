package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

type doctorOptions struct {
	app *App

	strict bool
	output outputFlag
}

func newDoctorCmd(app *App) *cobra.Command {
	opts := &doctorOptions{app: app}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine database, schema, broker, Redis and publishers, each finding with its remedy",
		Long: `Examine what the outbox depends on: the server and its settings, schema and enum against this binary, indexes, vacuum and
HOT updates, whoever pins xmin, leases, publishers, topics and subscriptions, Redis, and variables left set.

Nothing is changed. The exit code is 1 when something fails, otherwise 0; --strict counts warnings as failures.`,
		Example: "  outboxctl doctor\n  outboxctl doctor -o json | jq '.[] | select(.level != \"ok\")'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), opts) },
	}
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "exit with 1 on warnings too")
	addOutputFlag(cmd, &opts.output, listFormats()...)
	return cmd
}

func runDoctor(ctx context.Context, opts *doctorOptions) error {
	cfg, err := opts.app.Config("database.url")
	if err != nil {
		return err
	}
	findings := doctor.Examine(ctx, opts.app.doctorChecks(ctx, cfg))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i := range findings {
		findings[i].Message = safetext.Redact(findings[i].Message)
	}
	if err := writeList(opts.app, opts.output.format, doctorView(), findings); err != nil {
		return err
	}
	worst := doctor.Worst(findings)
	if worst == doctor.Fail || (opts.strict && worst == doctor.Warn) {
		return silentError{exitFailed}
	}
	return nil
}

func doctorView() view[doctor.Finding] {
	colours := map[doctor.Level]style{doctor.OK: styleGood, doctor.Warn: styleWarn, doctor.Fail: styleError}
	return view[doctor.Finding]{
		id: func(f doctor.Finding) string { return f.Area + "/" + f.Check },
		columns: []column[doctor.Finding]{
			{
				head: "level", cell: func(f doctor.Finding, _ *cellStyle) string { return string(f.Level) },
				style: func(f doctor.Finding) style { return colours[f.Level] },
			},
			{head: "area", cell: func(f doctor.Finding, _ *cellStyle) string { return f.Area }},
			{head: "check", cell: func(f doctor.Finding, _ *cellStyle) string { return f.Check }},
			{head: "finding", wrap: true, cell: func(f doctor.Finding, _ *cellStyle) string { return f.Message }},
			{head: "remedy", wrap: true, cell: func(f doctor.Finding, _ *cellStyle) string { return f.Remedy }},
		},
	}
}
