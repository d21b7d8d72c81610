package cmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/internal/adoption"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// runMigratePlan shows what a migration would find and do.
func runMigratePlan(ctx context.Context, opts *migrateUpOptions, o migrate.Options) error {
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	cfg, err := opts.app.Config()
	if err != nil {
		return err
	}
	catalogue, err := opts.app.Registry(ctx)
	if err != nil {
		return err
	}
	plan, err := adoption.Plan(ctx, pool, adoption.Params{Options: o, Catalogue: catalogue,
		MaxAttempts: cfg.Publish.MaxAttempts})
	if err != nil {
		return migrateError(err)
	}
	human := func(p *cli.Page) { writeMigrationPlan(planPage{p}, plan) }
	if err := cli.WriteObject(opts.app, opts.output, plan, human); err != nil {
		return err
	}
	if len(plan.Blocked) > 0 {
		return fault.Hint(fault.As(fault.Precondition, fmt.Errorf("table outbox_events cannot be adopted as it is: %s",
			words.Counted(int64(len(plan.Blocked)), "difference"))), "run the statements above, then plan again")
	}
	return nil
}

func writeMigrationPlan(p planPage, plan adoption.Adoption) {
	switch {
	case !plan.Exists:
		p.line("There is no table outbox_events: migrate creates everything, with event types as %s.", plan.Types)
		return
	case plan.Pending == 0:
		p.line("The schema is at version %d: nothing to do.", plan.Database)
	case plan.Database > 0:
		p.line("The schema is at version %d of %d.", plan.Database, plan.Binary)
	default:
		p.line("Table outbox_events exists and would become the outbox, with event types as %s.", plan.Types)
	}
	p.line("It has about %s in %s, and indexes of %s.", words.Counted(plan.Rows, "row"),
		size(plan.TableBytes), size(plan.IndexBytes))
	if len(plan.Blocked) > 0 {
		p.head("What has to change first")
		for _, d := range plan.Blocked {
			p.line("  %s %s", safetext.Line(d.Column), safetext.Line(d.Problem))
			p.line("      %s;", safetext.Line(d.Statement))
		}
	}
	p.list("What differs and does not matter", plan.Harmless)
	p.list("What to know before", plan.Warnings)
	if len(plan.Blocked) > 0 {
		return
	}
	if len(plan.Steps) > 0 {
		p.head("What takes time, about %s in all; writers wait for none of it", seconds(plan.Seconds))
		for _, s := range plan.Steps {
			p.line("  %-28s %6s  %s", s.Step, seconds(s.Seconds), s.Does)
		}
		p.line("  It writes about %s to the log, and the table and its indexes grow by about %s.",
			size(plan.WALBytes), size(plan.GrowthBytes))
	}
	if len(plan.Sessions) > 0 {
		p.head("Who uses the table now")
		for _, s := range plan.Sessions {
			p.line("  %-9s %s as %s, process %d", s.Does, safetext.Line(s.Application),
				safetext.Line(s.User), s.PID)
		}
	}
	p.backlog(plan.Waiting, plan.Backlog)
}

// planPage is a page of sentences, some of them with a list.
type planPage struct{ io.Writer }

func (p planPage) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }
func (p planPage) head(format string, args ...any) { p.line("\n"+format+":", args...) }

func (p planPage) list(head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.head("%s", head)
	for _, l := range lines {
		p.line("  %s", safetext.Line(l))
	}
}

func (p planPage) backlog(waiting int64, b registry.Backlog) {
	p.head("What becomes of %s", words.Counted(waiting, "waiting event"))
	if b.Judged < waiting {
		p.line("  the oldest %s were judged", words.Count(b.Judged))
	}
	p.line("  %s would be published", words.Count(b.Publish))
	if b.OtherEventID > 0 {
		p.line("  %s of them have an envelope with another eventId; they are published unchanged, with the row's id as attribute event_id", words.Count(b.OtherEventID))
	}
	if b.AttemptsSpent > 0 {
		p.line("  %s have spent their attempts and die at their first claim, keeping their last error",
			words.Count(b.AttemptsSpent))
	}
	for _, r := range b.Die {
		p.line("  %s of type %s would die as %s: %s (such as %s)", words.Count(r.Waiting),
			safetext.Line(r.EventType), r.Reason, safetext.Line(r.Problem), r.Example)
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
