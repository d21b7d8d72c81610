package cmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/pgread"
)

func newMigrateStatusCmd(app *cli.App) *cobra.Command {
	return listing(app, &cobra.Command{
		Use:   "status",
		Short: "List the migrations and whether this database has them; changes nothing",
		Long: `List every migration known to this binary or recorded in the database: applied,
pending, or unknown (recorded by another version of outboxctl). It only reads, and needs no lock.`,
		Example: "  outboxctl migrate status\n  outboxctl migrate status -o json | jq '.[] | select(.state == \"pending\")'",
	}, false, migrationView(), from(app.Reads,
		func(ctx context.Context, db *pgread.DB, _ []string) ([]migrate.StepStatus, error) {
			return migrate.Status(ctx, db, migrate.Options{})
		}))
}

func migrationView() cli.View[migrate.StepStatus] {
	colours := map[string]cli.Style{
		migrate.StepApplied: cli.StyleGood, migrate.StepPending: cli.StyleWarn,
		migrate.StepUnknown: cli.StyleError,
	}
	return cli.View[migrate.StepStatus]{
		ID: func(s migrate.StepStatus) string { return strconv.FormatInt(s.Version, 10) },
		Columns: cli.Columns[migrate.StepStatus]("version, name, state, applied at=appliedAt").
			Cell("version", func(s migrate.StepStatus) string { return strconv.FormatInt(s.Version, 10) }).
			Style("state", func(s migrate.StepStatus) cli.Style { return colours[s.State] }),
	}
}

func newMigrateVersionCmd(app *cli.App) *cobra.Command {
	return showing(app, &cobra.Command{
		Use:     "version",
		Short:   "Show the schema version of the database and of this binary; changes nothing",
		Example: "  outboxctl migrate version\n  outboxctl migrate version -o json",
	}, from(app.Reads, func(ctx context.Context, db *pgread.DB, _ []string) (migrate.Versions, error) {
		return migrate.Version(ctx, db, migrate.Options{})
	}), func(p *cli.Page, v migrate.Versions) {
		fmt.Fprintf(p, "schema version %d, this binary has %d, pending %d\n",
			v.Database, v.Binary, v.Pending)
	})
}
