package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/migrations"
)

type migrateOptions struct {
	app *cli.App

	limits migrateLimits
	types  string
	pace   float64
	to     int64
	dryRun bool
	output cli.Output
}

// maxPace is a rest of a hundred times the work, beyond which a migration hardly moves.
const maxPace = 100

func newMigrateCmd(app *cli.App) *cobra.Command {
	opts := &migrateOptions{app: app}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or update the outbox tables",
		Long: `Apply the migrations this database lacks, safely beside running producers and publishers.

An advisory lock lets one migration run per database at a time; a second one waits and finds nothing
to do. No statement waits for a table lock longer than --lock-timeout, so a long reader delays the
migration, never the writers behind it. A migration that was killed is finished by running it again.

In an empty database --types text makes event types, aggregate types and aggregate ids text, for a
catalogue of your own, and so does a catalogue file that is configured; otherwise they are
PackFinderz' enums and UUIDs. A table that exists already keeps the types it has.

--dry-run changes nothing. It prints the SQL, which psql and other tools can apply: each migration
stands alone and records its version. What it would meet goes to stderr: whether an existing table
can become the outbox (exit code 4 and the statements that help, if it cannot), how long that takes,
and who uses the table now. See docs/adoption.md.`,
		Example: "  outboxctl migrate\n  outboxctl migrate --dry-run\n  outboxctl migrate --types text\n  outboxctl migrate --to 4 --lock-timeout 200ms",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runMigrate(cmd.Context(), opts) },
	}
	opts.limits.addFlags(cmd)
	cmd.Flags().Int64Var(&opts.to, "to", 0, "last version to apply (0: all)")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "print the SQL that would run and, on stderr, what it would meet; change nothing")
	cmd.Flags().Float64Var(&opts.pace, "pace", migrate.DefaultPace, "rest after each batch, as a multiple of the time it took (0: none)")
	cli.AddChoice(cmd.Flags(), &opts.types, "types", "what event and aggregate `types` are in an empty database (default enum, text with a catalogue file)",
		migrate.TypesText, migrate.TypesEnum)
	cli.AddOutputFlags(cmd, &opts.output, cli.ObjectFormats()...)
	cmd.AddCommand(newMigrateStatusCmd(app), newMigrateVersionCmd(app), newMigrateGrantsCmd(app))
	return cmd
}

func runMigrate(ctx context.Context, opts *migrateOptions) error {
	if opts.to < 0 {
		return fault.Usagef("--to %d: a version is not negative", opts.to)
	}
	if opts.pace < 0 || opts.pace > maxPace {
		return fault.Usagef("--pace %g: must be between 0 and %d", opts.pace, maxPace)
	}
	o := opts.limits.options(opts.app)
	o.To, o.Types, o.Pace = opts.to, opts.types, cmp.Or(opts.pace, -1)
	cfg, err := opts.app.Config()
	if err != nil {
		return err
	}
	if cli.IsCatalogueFile(cfg.Catalogue) {
		o.FreshTypes = migrate.TypesText // the enums have the built-in types only
	}
	if opts.dryRun {
		return runMigrateDryRun(ctx, opts, o)
	}
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	if opts.app.ErrTTY && o.Types == "" && cfg.Catalogue == "" {
		if err := sayPreset(ctx, opts.app.Err, pool); err != nil {
			return migrateError(err)
		}
	}
	res, err := migrate.Up(ctx, pool, o)
	if err != nil {
		return migrateError(err)
	}
	sayRights(opts.app.Err, res)
	return writeMigrateResult(opts.app, opts.output, res)
}

// sayPreset tells who starts from nothing which types the tables get.
func sayPreset(ctx context.Context, w io.Writer, pool *pgxpool.Pool) error {
	var fresh bool
	if err := pool.QueryRow(ctx, `SELECT to_regclass('outbox_events') IS NULL`).Scan(&fresh); err != nil || !fresh {
		return err
	}
	fmt.Fprintln(w, "note: this creates the PackFinderz preset, with its event types as enums and ids as UUIDs; for types of your own: outboxctl migrate --types text")
	return nil
}

// sayRights prints what a run left to be done about rights.
func sayRights(w io.Writer, res migrate.Result) {
	if len(res.MissingRoles) > 0 && len(res.Ran) > 0 {
		fmt.Fprintf(w, "roles not created, this database user may not: %s; outboxctl migrate grants prints the statements\n",
			strings.Join(res.MissingRoles, ", "))
	}
	if len(res.ForeignRoles) > 0 && len(res.Ran) > 0 {
		fmt.Fprintf(w, "nothing granted to %s: they have rights elsewhere on this server, or members, who would get those of this database too; "+
			"outboxctl migrate grants prints the statements for roles of your own\n", strings.Join(res.ForeignRoles, ", "))
	}
	if len(res.Creators) > 0 {
		who := strings.Join(res.Creators, ", ")
		fmt.Fprintf(w, "warning: %s may create in schema %s, and so run code as the roles that use the outbox; REVOKE CREATE ON SCHEMA %s FROM %s\n",
			who, res.Schema, res.Schema, who)
	}
}

// migrateResult is what a run did, as JSON.
type migrateResult struct {
	From    int64         `json:"from"`
	To      int64         `json:"to"`
	Applied []migrateStep `json:"applied"`
}

type migrateStep struct {
	migrate.Step
	TookSeconds float64 `json:"tookSeconds"`
}

func writeMigrateResult(app *cli.App, output cli.Output, res migrate.Result) error {
	steps := make([]migrateStep, len(res.Ran))
	for i, r := range res.Ran {
		steps[i] = migrateStep{r.Step, r.Took.Seconds()}
	}
	return cli.WriteObject(app, output, migrateResult{From: res.From, To: res.To, Applied: steps}, func(p *cli.Page) {
		if len(steps) == 0 {
			fmt.Fprintf(p, "nothing to do: schema version %d\n", res.To)
			return
		}
		fmt.Fprintf(p, "schema version %d (was %d): %d applied%s\n", res.To, res.From, len(steps), app.Where())
	})
}

// migrateError gives what stopped a run its exit code; refusals bring theirs along.
func migrateError(err error) error {
	var partial *migrate.PartialError
	var answer *pgconn.PgError
	switch {
	case errors.As(err, &partial) && len(partial.Applied) > 0:
		return fault.As(fault.Partial, err)
	case migrate.IsLockTimeout(err):
		return fault.As(fault.Precondition, err)
	case errors.As(err, &answer) && answer.Code == pgerrcode.InsufficientPrivilege:
		return fault.Hint(fault.As(fault.Precondition, err), "run it as the owner of the tables or, before there are any, as one who may create in the schema")
	default:
		return err
	}
}

// migrateLimits bound how long a migration waits, and how long others wait for it.
type migrateLimits struct {
	lockTimeout, retryFor, wait time.Duration
}

func (l *migrateLimits) addFlags(cmd *cobra.Command) {
	cli.AddLimit(cmd, &l.lockTimeout, "lock-timeout", migrate.DefaultLockTimeout, time.Millisecond,
		"stop waiting for a table lock after this long, and retry later")
	cli.AddLimit(cmd, &l.retryFor, "retry-for", migrate.DefaultRetryFor, 0,
		"how long to try one migration again while others hold its locks")
	cli.AddLimit(cmd, &l.wait, "wait", migrate.DefaultWait, 0,
		"how long to wait for another migration to finish")
}

// options are the runner's: there zero means the default, here not at all.
func (l *migrateLimits) options(app *cli.App) migrate.Options {
	return migrate.Options{
		LockTimeout: l.lockTimeout,
		RetryFor:    cmp.Or(l.retryFor, -1),
		Wait:        cmp.Or(l.wait, -1),
		Progress:    func(message string) { fmt.Fprintln(app.Err, message) },
	}
}

func newMigrateStatusCmd(app *cli.App) *cobra.Command {
	colours := map[string]cli.Style{
		migrate.StepApplied: cli.StyleGood, migrate.StepPending: cli.StyleWarn,
		migrate.StepUnknown: cli.StyleError,
	}
	return listing(app, &cobra.Command{
		Use:   "status",
		Short: "List the migrations and whether this database has them; changes nothing",
		Long: `List every migration known to this binary or recorded in the database: applied,
pending, or unknown (recorded by another version of outboxctl). It only reads, and needs no lock.`,
		Example: "  outboxctl migrate status\n  outboxctl migrate status -o json | jq '.[] | select(.state == \"pending\")'",
	}, false, cli.View[migrate.StepStatus]{
		ID: func(s migrate.StepStatus) string { return strconv.FormatInt(s.Version, 10) },
		Columns: cli.Columns[migrate.StepStatus]("version, name, state, applied at=appliedAt").
			Cell("version", func(s migrate.StepStatus) string { return strconv.FormatInt(s.Version, 10) }).
			Style("state", func(s migrate.StepStatus) cli.Style { return colours[s.State] }),
	}, from(app.Reads,
		func(ctx context.Context, db *pgread.DB, _ []string) ([]migrate.StepStatus, error) {
			return migrate.Status(ctx, db, migrate.Options{})
		}))
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

func newMigrateGrantsCmd(app *cli.App) *cobra.Command {
	names := map[string]*string{} // by role of ours
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
			granted := map[string]string{}
			for role, name := range names {
				flag := strings.TrimPrefix(role, "outbox_")
				if *name == "" {
					return fault.Usagef("--%s: a role name is not empty", flag)
				}
				if cmd.Flags().Changed(flag) {
					granted[role] = *name
				}
			}
			statements, err := migrate.Grants(migrations.FS, granted)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(app.Out, strings.Join(statements, "\n"))
			return err
		},
	}
	for _, role := range migrate.Roles() {
		flag := strings.TrimPrefix(role, "outbox_")
		names[role] = cmd.Flags().String(flag, role, "role that gets the rights of the "+flag)
	}
	return cmd
}
