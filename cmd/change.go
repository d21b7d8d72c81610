package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// changeOptions is one change to many rows: replay, discard, restore or republish.
type changeOptions struct {
	app    *cli.App
	action dlq.Action
	// choose reads the filter flags of the command into the params, if any was given.
	choose func(now time.Time, p *operate.ChangeParams) error
	// names are those that the filter flags give.
	names []outbox.FilterName

	ids            []string
	dryRun         bool
	force          bool
	yes            bool
	plan           string
	freeze         bool
	apply          string
	rate           rateFlag
	ramp           bool
	abortIfDead    percentFlag
	watchFor       time.Duration
	wait           bool
	timeout        time.Duration
	checkConsumers []string
	audit          cli.AuditFlags
	output         cli.Output
	again          func(set map[string]string) string
}

func runChange(ctx context.Context, opts *changeOptions) error {
	params, err := opts.params()
	if file, opened := params.Plan.(*os.File); opened {
		defer func() { _ = file.Close() }() // it was only read
	}
	if err != nil {
		return err
	}
	box, err := opts.app.LongOutbox(ctx)
	if err != nil {
		return err
	}
	// Once more by the database's clock, which is the one that rows are stamped with.
	now, err := box.Now(ctx)
	if err != nil {
		return err
	}
	if err := opts.choose(now, &params); err != nil {
		return err
	}
	if err := sayMisspelt(ctx, opts.app, box, opts.names); err != nil {
		return err
	}
	set, err := box.ChooseChange(ctx, params)
	if err != nil {
		return err
	}
	opts.describe(set)
	if !opts.force && !opts.dryRun {
		if err := set.RefuseHopeless(); err != nil {
			return err
		}
	}
	switch {
	case opts.plan != "":
		return opts.freezeToFile(ctx, set)
	case opts.freeze && set.Total > 0:
		return opts.freezeInDatabase(ctx, set)
	}
	if set.Total == 0 {
		fmt.Fprintf(opts.app.Err, "nothing to %s\n", set.Action.Verb())
		return cli.WriteList(opts.app, opts.output, opts.view(ctx, box), nil)
	}
	if err := opts.sayConsumers(ctx, set); err != nil {
		return err
	}
	if !opts.dryRun {
		question := fmt.Sprintf("%s %s", set.Action.Verb(), words.Counted(set.Total, set.Action.Noun()))
		if set.Releases > 0 {
			question += fmt.Sprintf(" and release %s that wait behind them", words.Counted(set.Releases, "event"))
		}
		if err := opts.app.Confirm(ctx, opts.yes, set.Total, question); err != nil {
			return err
		}
	}
	return opts.perform(ctx, box, set)
}

// params returns what is wrong with the command line before anything is opened, and reads the ids.
func (o *changeOptions) params() (operate.ChangeParams, error) {
	p := operate.ChangeParams{Action: o.action, Actor: o.app.Actor(o.audit), Note: o.audit.Note}
	if err := o.app.RefuseEmpty(append(filterFlags(), "plan", "apply")...); err != nil {
		return p, err
	}
	if err := o.choose(o.app.Now(), &p); err != nil {
		return p, err
	}
	p.IDs = o.ids // they are read last: standard input may be among them
	if o.apply != "" {
		file, err := os.Open(o.apply)
		if err != nil {
			return p, fault.Usagef("read plan: %w", fault.File(o.apply, err))
		}
		p.Plan = file
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return p, fault.Usagef("read plan: %s is a folder", o.apply)
		}
	}
	err := p.Check()
	switch {
	case errors.Is(err, operate.ErrNoSet):
		return p, fault.Hint(fault.Usagef("say what to %s: %s", o.action.Verb(), o.sources()), "%s", o.noSetHint())
	case err != nil:
		return p, fault.Usagef("give %s, only one of them", o.sources())
	case o.plan != "" && (o.apply != "" || o.dryRun):
		return p, fault.Usagef("--plan changes nothing, so --apply and --dry-run do not go with it")
	case o.wait && (o.freeze || o.plan != "" || o.dryRun):
		return p, fault.Usagef("--wait waits for events that are sent, and --freeze, --plan and --dry-run send none")
	case o.freeze && (o.plan != "" || o.apply != "" || o.dryRun):
		return p, fault.Usagef("--freeze changes nothing, so --plan, --apply and --dry-run do not go with it")
	}
	if p.IDs, err = readIDs(o.app.In, o.ids); err != nil {
		return p, err
	}
	if len(o.ids) > 0 && len(p.IDs) == 0 {
		return p, fault.Usagef("standard input holds no ids")
	}
	return p, nil
}

// perform changes the set, or says what a change would do.
func (o *changeOptions) perform(ctx context.Context, box *operate.Outbox, set *operate.ChangeSet) error {
	run := operate.ApplyParams{RunID: uuid.NewString(), DryRun: o.dryRun, Force: o.force, Rate: float64(o.rate), Watch: o.watch()}
	list, err := cli.NewListWriter(o.app, o.output, o.view(ctx, box))
	if err != nil {
		return err
	}
	// A person wants to see what did not work, or the first of it; the thousands that did are a number.
	form := o.output.Form()
	brief := o.app.OutTTY && (form == cli.FormatTable || form == cli.FormatWide) && set.Total > cli.DefaultLimit
	label, success := o.action.Success(), o.action.Success()
	if o.dryRun {
		label, success = "looked at", o.action.Would()
	}
	bar := o.app.NewProgress(label, set.Total)
	if !o.dryRun {
		defer cli.SurviveClosedPipe()()
		fmt.Fprintf(o.app.Err, "run %s\n", run.RunID)
	}
	var shown, unsaid int64
	show := func(row operate.ChangeOutcome) error {
		if shown++; brief && shown > cli.DefaultLimit {
			unsaid++
			return nil
		}
		return list.Write(row)
	}
	var sent []operate.ChangeOutcome
	run.OnOutcomes = func(outcomes []dlq.Outcome) error {
		for _, outcome := range outcomes {
			row := operate.ChangeOutcome{ID: outcome.ID, EventID: outcome.EventID, Outcome: outcome.Outcome}
			if outcome.Outcome == success && (o.wait || brief) {
				if o.wait {
					sent = append(sent, row) // printed when it is known what became of it
				}
				continue
			}
			if err := show(row); err != nil {
				return err
			}
		}
		bar.Add(int64(len(outcomes)))
		return nil
	}
	result, err := set.Apply(ctx, run)
	bar.Done()
	if len(sent) > 0 {
		o.summarise(result)
		err = o.await(ctx, set, sent, err, func(row operate.ChangeOutcome) error {
			if brief && row.Became == dlq.BecamePublished {
				return nil
			}
			return show(row)
		})
	}
	if closeErr := list.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if unsaid > 0 {
		fmt.Fprintf(o.app.Err, "and %s more\n", words.Count(unsaid))
	}
	if len(sent) == 0 {
		o.summarise(result)
	}
	switch {
	case result.Interrupted:
		fmt.Fprintf(o.app.Err, "interrupted after %s; go on with: %s\n", words.Counted(result.Total(), "row"), o.again(resume(set)))
	case result.Stopped != "":
		err = fault.Hint(err, "fix the cause, then go on with: %s", o.again(resume(set)))
	case result.Unfinished:
		err = fault.Hint(err, "every row listed is settled; go on with: %s", o.again(resume(set)))
	case result.Counts[dlq.Changed] > 0 && set.Undoes():
		err = fault.Hint(err, "outboxctl audit --event ID shows who changed it since")
	case result.Counts[dlq.NotFound] > 0 && result.Counts[dlq.NotFound] == result.Total():
		err = fault.Hint(err, "outboxctl why ID tells what became of an event")
	}
	return err
}

// resume is the flags that choose the same set again: a set chosen by a filter ended when it was chosen.
func resume(set *operate.ChangeSet) map[string]string {
	flags := map[string]string{}
	for name, at := range map[string]time.Time{"since": set.Since, "until": set.Until} {
		if !at.IsZero() {
			flags[name] = at.UTC().Format(time.RFC3339Nano)
		}
	}
	return flags
}

func (o *changeOptions) watch() *dlq.Watch {
	if !o.ramp && !o.abortIfDead.set {
		return nil
	}
	w := dlq.DefaultWatch()
	w.MaxDead, w.For = o.abortIfDead.share, o.watchFor
	return &w
}
