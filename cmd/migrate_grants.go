package cmd

import (
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/migrations"
)

type migrateGrantsOptions struct {
	app *cli.App

	names map[string]*string // by role of ours; without those that no flag names
}

func newMigrateGrantsCmd(app *cli.App) *cobra.Command {
	opts := &migrateGrantsOptions{app: app, names: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "Print the GRANT statements of the roles",
		Long: `Print the statements that give emitter, dispatcher, operator and viewer their rights,
and nothing else. The migrations run them by themselves when the four roles are new or unused; for
any other roles you run them, as the owner of the tables. With flags only the roles that they name
are granted to. No database is needed.

Roles belong to the whole server: a member of one gets its rights in every database that grants to
it.`,
		Example: "  outboxctl migrate grants\n  outboxctl migrate grants --emitter shop_api --viewer grafana | psql \"$DATABASE_URL\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			maps.DeleteFunc(opts.names, func(role string, _ *string) bool { return !cmd.Flags().Changed(strings.TrimPrefix(role, "outbox_")) })
			return runMigrateGrants(opts)
		},
	}
	for _, role := range migrate.Roles() {
		flag := strings.TrimPrefix(role, "outbox_")
		opts.names[role] = cmd.Flags().String(flag, role, "role that gets the rights of the "+flag)
	}
	return cmd
}

func runMigrateGrants(opts *migrateGrantsOptions) error {
	names := map[string]string{}
	for role, name := range opts.names {
		if *name == "" {
			return fault.Usagef("--%s: a role name is not empty", strings.TrimPrefix(role, "outbox_"))
		}
		names[role] = *name
	}
	statements, err := migrate.Grants(migrations.FS, names)
	if err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := fmt.Fprintln(opts.app.Out, s); err != nil {
			return err
		}
	}
	return nil
}
