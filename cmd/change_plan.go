package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// writePlan freezes the set to a file. The file appears only when it is whole, and never replaces another.
func (o *changeOptions) writePlan(ctx context.Context, store *dlq.Store, set chosen) error {
	if _, err := os.Lstat(o.plan); err == nil {
		return fault.Preconditionf("write plan: %s exists already", o.plan)
	}
	here, err := store.Identity(ctx)
	if err != nil {
		return dlqError(err)
	}
	now, err := store.Now(ctx)
	if err != nil {
		return dlqError(err)
	}
	file, err := os.CreateTemp(filepath.Dir(o.plan), ".outboxctl-plan-*")
	if err != nil {
		return fault.Preconditionf("write plan: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // gone already when the plan was written
	source, err := set.open()
	if err != nil {
		return err
	}
	n, skipped, err := store.WritePlan(ctx, file, dlq.PlanHeader{
		Action: o.action, CreatedAt: now.UTC(), Author: o.app.Actor(o.audit), Reason: o.audit.Reason, Database: here, Filter: set.filter,
	}, source)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return dlqError(err)
	}
	for outcome, count := range skipped {
		fmt.Fprintf(o.app.Err, "left out: %s (%s)\n", counted(count, o.noun()), dlq.Explain(outcome))
	}
	if n == 0 {
		if skipped[dlq.NotFound] > 0 {
			return fault.NotFoundf("write plan: none of the ids was found")
		}
		return fault.Preconditionf("write plan: nothing to %s", o.verb())
	}
	// A link, unlike a rename, does not replace a file that has appeared meanwhile.
	if err := os.Link(file.Name(), o.plan); err != nil {
		return fault.Preconditionf("write plan: %w", err)
	}
	fmt.Fprintf(o.app.Err, "%s frozen in %s; nothing was changed\napply it with: %s\n", counted(n, o.noun()), safetext.Line(o.plan),
		o.againWith(o.plan))
	return nil
}

func (o *changeOptions) againWith(plan string) string {
	group := "dlq"
	if o.action == dlq.Republish {
		group = "event"
	}
	return fmt.Sprintf("outboxctl %s %s --apply %s", group, o.verb(), cli.QuoteWord(plan))
}

// planFile is a plan that was read through once and found whole.
type planFile struct {
	file   *os.File
	header dlq.PlanHeader
	count  int64
}

func openPlanFile(path string, action dlq.Action) (*planFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.Usagef("read plan: %w", err)
	}
	p := &planFile{file: file}
	p.header, p.count, err = dlq.CheckPlan(file)
	if err == nil && p.header.Action != action {
		err = fmt.Errorf("%w: it is a plan for %s", dlq.ErrPlan, p.header.Action)
	}
	if err != nil {
		return nil, errors.Join(fault.Usagef("read plan %s: %w", path, err), file.Close())
	}
	return p, nil
}

func (p *planFile) close() { _ = p.file.Close() } // it was only read

// belongs refuses a plan of another database: its ids would mean nothing here, or the wrong thing.
func (p *planFile) belongs(here dlq.Identity) error {
	if p.header.Database.Same(here) {
		return nil
	}
	return fault.Hint(fault.Preconditionf("the plan is for another database: it was made on %s (system %s), this is %s (system %s)",
		p.header.Database.Name, p.header.Database.SystemIdentifier, here.Name, here.SystemIdentifier),
		"outboxctl config view shows which database this is")
}

func (p *planFile) source() (dlq.Source, error) {
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	return dlq.OpenPlan(p.file)
}

func (p *planFile) describe(a *cli.App) {
	why := ""
	if p.header.Reason != "" {
		why = ": " + p.header.Reason
	}
	fmt.Fprintf(a.Err, "plan %s by %s of %s, %s%s\n", p.header.ID, safetext.Line(p.header.Author),
		p.header.CreatedAt.Format(time.RFC3339), counted(p.count, "item"), safetext.Line(why))
}
