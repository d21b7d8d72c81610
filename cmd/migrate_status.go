package cmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/migrate"
)

type migrateStatusOptions struct {
	app *App

	output outputFlag
}

// migrationEntry is one migration as migrate status shows it.
type migrationEntry struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	State     string     `json:"state"` // applied, pending, unknown
	AppliedAt *time.Time `json:"appliedAt"`
}

func newMigrateStatusCmd(app *App, runF func(context.Context, *migrateStatusOptions) error) *cobra.Command {
	opts := &migrateStatusOptions{app: app}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the migrations and whether this database has them; changes nothing",
		Long: `List every migration known to this binary or recorded in the database: applied, pending, or unknown (recorded by
another version of outboxctl). It only reads, and needs no lock.`,
		Example: "  outboxctl migrate status\n  outboxctl migrate status -o json | jq '.[] | select(.state == \"pending\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), opts)
			}
			return runMigrateStatus(cmd.Context(), opts)
		},
	}
	addOutputFlag(cmd, &opts.output, listFormats()...)
	return cmd
}

func runMigrateStatus(ctx context.Context, opts *migrateStatusOptions) error {
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	list, err := migrate.Status(ctx, pool, migrate.Options{})
	if err != nil {
		return err
	}
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
	return writeList(opts.app, opts.output.format, migrationView(), entries)
}

func migrationView() view[migrationEntry] {
	return view[migrationEntry]{
		id: func(e migrationEntry) string { return strconv.FormatInt(e.Version, 10) },
		columns: []column[migrationEntry]{
			{head: "version", cell: func(e migrationEntry, _ *cellStyle) string { return strconv.FormatInt(e.Version, 10) }},
			{head: "name", cell: func(e migrationEntry, _ *cellStyle) string { return e.Name }},
			{
				head: "state", cell: func(e migrationEntry, _ *cellStyle) string { return e.State },
				style: func(e migrationEntry) style {
					return map[string]style{"applied": styleGood, "pending": styleWarn, "unknown": styleError}[e.State]
				},
			},
			{head: "applied at", cell: func(e migrationEntry, s *cellStyle) string { return s.timePtr(e.AppliedAt) }},
		},
	}
}

type migrateVersionOptions struct {
	app *App

	output outputFlag
}

// schemaVersion compares database and binary.
type schemaVersion struct {
	Database int64 `json:"database"`
	Binary   int64 `json:"binary"`
	Pending  int   `json:"pending"`
}

func newMigrateVersionCmd(app *App, runF func(context.Context, *migrateVersionOptions) error) *cobra.Command {
	opts := &migrateVersionOptions{app: app}
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the schema version of the database and of this binary; changes nothing",
		Example: "  outboxctl migrate version\n  outboxctl migrate version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), opts)
			}
			return runMigrateVersion(cmd.Context(), opts)
		},
	}
	addOutputFlag(cmd, &opts.output, objectFormats()...)
	return cmd
}

func runMigrateVersion(ctx context.Context, opts *migrateVersionOptions) error {
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	v, err := migrate.Version(ctx, pool, migrate.Options{})
	if err != nil {
		return err
	}
	out := schemaVersion{Database: v.Database, Binary: v.Binary, Pending: v.Pending}
	return writeObject(opts.app, opts.output.format, out, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "schema version %d, this binary has %d, pending %d\n", v.Database, v.Binary, v.Pending)
		return err
	})
}
