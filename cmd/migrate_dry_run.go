package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// migrateDryRun is what a migration would find, and the SQL that it would run.
type migrateDryRun struct {
	migrate.Adoption
	Migrations []migrate.Script `json:"migrations"`
}

// runMigrateDryRun prints the SQL on Out and, for people, what it would meet on Err.
func runMigrateDryRun(ctx context.Context, opts *migrateOptions, o migrate.Options) error {
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	found, err := migrate.Survey(ctx, pool, o)
	if err != nil {
		return migrateError(err)
	}
	if err := addMisfit(ctx, opts.app, pool, &found); err != nil {
		return err
	}
	run := migrateDryRun{Adoption: found, Migrations: []migrate.Script{}}
	if len(found.Blocked) == 0 {
		if run.Migrations, err = migrate.Scripts(ctx, pool, o); err != nil {
			return migrateError(err)
		}
	}
	writeSurvey(surveyPage{opts.app.Err}, found)
	human := func(p *cli.Page) {
		for _, m := range run.Migrations {
			fmt.Fprintf(p, "-- %s\n%s\n", m.Name, m.SQL)
		}
	}
	if err := cli.WriteObject(opts.app, opts.output, run, human); err != nil {
		return err
	}
	if len(found.Blocked) > 0 {
		return fault.Hint(fault.As(fault.Precondition, fmt.Errorf("table outbox_events cannot be adopted as it is: %s",
			words.Counted(int64(len(found.Blocked)), "difference"))), "run the statements above, then try again")
	}
	return nil
}

// addMisfit adds to what keeps a table from being adopted that its columns cannot hold the catalogue.
func addMisfit(ctx context.Context, app *cli.App, pool *pgxpool.Pool, found *migrate.Adoption) error {
	if !found.Exists || found.Database > 0 {
		return nil
	}
	types, err := app.Registry(ctx)
	if err != nil || types.Source == registry.PackFinderz {
		return err
	}
	var misfit *catalogue.ColumnError
	if err := types.Fits(ctx, pool); errors.As(err, &misfit) {
		found.Blocked = append(found.Blocked, migrate.Difference{
			Column: misfit.Column, Problem: "cannot hold the catalogue: " + misfit.Problem, Statement: misfit.Statement,
		})
	} else if err != nil {
		return err
	}
	return nil
}

func writeSurvey(p surveyPage, found migrate.Adoption) {
	switch {
	case !found.Exists:
		p.line("There is no table outbox_events: migrate creates everything, with event types as %s.", found.Types)
		return
	case found.Pending == 0:
		p.line("The schema is at version %d: nothing to do.", found.Database)
	case found.Database > 0:
		p.line("The schema is at version %d of %d.", found.Database, found.Binary)
	default:
		p.line("Table outbox_events exists and would become the outbox, with event types as %s.", found.Types)
	}
	p.line("It has about %s in %s, and indexes of %s.", words.Counted(found.Rows, "row"),
		size(found.TableBytes), size(found.IndexBytes))
	if len(found.Blocked) > 0 {
		p.head("What has to change first")
		for _, d := range found.Blocked {
			p.line("  %s %s", safetext.Line(d.Column), safetext.Line(d.Problem))
			p.line("      %s;", safetext.Line(d.Statement))
		}
	}
	p.list("What differs and does not matter", found.Harmless)
	p.list("What to know before", found.Warnings)
	if len(found.Blocked) > 0 {
		return
	}
	if len(found.Steps) > 0 {
		p.head("What takes time, about %s in all; writers wait for none of it", seconds(found.Seconds))
		for _, s := range found.Steps {
			p.line("  %-28s %6s  %s", s.Step, seconds(s.Seconds), s.Does)
		}
		p.line("  It writes about %s to the log, and the table and its indexes grow by about %s.",
			size(found.WALBytes), size(found.GrowthBytes))
	}
	if len(found.Sessions) > 0 {
		p.head("Who uses the table now")
		for _, s := range found.Sessions {
			p.line("  %-9s %s as %s, process %d", s.Does, safetext.Line(s.Application),
				safetext.Line(s.User), s.PID)
		}
	}
	p.line("\n%s: which of them would die says outboxctl registry check FILE --pending.", words.Counted(found.Waiting, "waiting event"))
}

// surveyPage is a page of sentences, some of them with a list.
type surveyPage struct{ io.Writer }

func (p surveyPage) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }
func (p surveyPage) head(format string, args ...any) { p.line("\n"+format+":", args...) }

func (p surveyPage) list(head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.head("%s", head)
	for _, l := range lines {
		p.line("  %s", safetext.Line(l))
	}
}

func size(bytes int64) string { return humanize.Bytes(uint64(max(0, bytes))) }

// seconds is an estimate as one would say it.
func seconds(s float64) string {
	if s < 1 {
		return "1s"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
