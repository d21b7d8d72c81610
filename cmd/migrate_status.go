package cmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/migrate"
)

// migrationEntry is one migration as migrate status shows it.
type migrationEntry struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	State     string     `json:"state"` // applied, pending, unknown
	AppliedAt *time.Time `json:"appliedAt"`
}

func newMigrateStatusCmd(app *cli.App) *cobra.Command {
	return listing(app, &cobra.Command{
		Use:   "status",
		Short: "List the migrations and whether this database has them; changes nothing",
		Long: `List every migration known to this binary or recorded in the database: applied,
pending, or unknown (recorded by another version of outboxctl). It only reads, and needs no lock.`,
		Example: "  outboxctl migrate status\n  outboxctl migrate status -o json | jq '.[] | select(.state == \"pending\")'",
	}, false, migrationView(), func(ctx context.Context, _ []string) ([]migrationEntry, error) { return migrationList(ctx, app) })
}

func migrationList(ctx context.Context, app *cli.App) ([]migrationEntry, error) {
	db, err := app.Reads(ctx)
	if err != nil {
		return nil, err
	}
	list, err := migrate.Status(ctx, db, migrate.Options{})
	entries := make([]migrationEntry, 0, len(list))
	for _, s := range list {
		e := migrationEntry{Version: s.Version, Name: s.Name, State: "pending"}
		if s.Applied {
			at := s.AppliedAt.UTC()
			e.State, e.AppliedAt = "applied", &at
		}
		if s.Unknown {
			e.State = "unknown"
		}
		entries = append(entries, e)
	}
	return entries, err
}

func migrationView() cli.View[migrationEntry] {
	return cli.View[migrationEntry]{
		ID: func(e migrationEntry) string { return strconv.FormatInt(e.Version, 10) },
		Columns: []cli.Column[migrationEntry]{
			{Head: "version", Cell: func(e migrationEntry, _ *cli.CellStyle) string { return strconv.FormatInt(e.Version, 10) }},
			{Head: "name"},
			{
				Head: "state",
				Style: func(e migrationEntry) cli.Style {
					return map[string]cli.Style{"applied": cli.StyleGood, "pending": cli.StyleWarn, "unknown": cli.StyleError}[e.State]
				},
			},
			{Head: "applied at", Field: "appliedAt"},
		},
	}
}

func newMigrateVersionCmd(app *cli.App) *cobra.Command {
	return showing(app, &cobra.Command{
		Use:     "version",
		Short:   "Show the schema version of the database and of this binary; changes nothing",
		Example: "  outboxctl migrate version\n  outboxctl migrate version -o json",
	}, func(ctx context.Context, _ []string) (v migrate.Versions, err error) {
		db, err := app.Reads(ctx)
		if err != nil {
			return v, err
		}
		return migrate.Version(ctx, db, migrate.Options{})
	}, func(w io.Writer, v migrate.Versions) error {
		_, err := fmt.Fprintf(w, "schema version %d, this binary has %d, pending %d\n", v.Database, v.Binary, v.Pending)
		return err
	})
}
