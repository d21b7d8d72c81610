package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// changeOptions is one change to many rows: replay, discard, restore, republish, retry or erase.
type changeOptions struct {
	app    *cli.App
	action dlq.Action
	// filter has the filter flags of the command; nil: it has none.
	filter *outbox.Query
	// undo is the run that the change takes back.
	undo *dlq.AuditRunResult

	ids, checkConsumers                           []string
	dryRun, force, yes, plan, discard, ramp, wait bool
	rate                                          cli.RateFlag
	abortIfDead                                   cli.ShareFlag
	watchFor, timeout                             time.Duration
	audit                                         cli.AuditFlags
	output                                        cli.Output
}

func runChange(ctx context.Context, opts *changeOptions) error {
	params, err := opts.params()
	if err != nil {
		return err
	}
	box, err := opts.app.LongOutbox(ctx)
	if err != nil {
		return err
	}
	if opts.filter != nil {
		f, err := filterBy(ctx, opts.app, box, opts.filter)
		if err != nil {
			return err
		}
		opts.choose(f, &params)
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
	if set.Total == 0 {
		fmt.Fprintf(opts.app.Err, "nothing to %s\n", set.Action.Verb())
		if opts.plan {
			return opts.noPlan()
		}
		return cli.WriteList(opts.app, opts.output, opts.view(), nil)
	}
	if err := opts.sayConsumers(ctx, set); err != nil {
		return err
	}
	switch {
	case opts.dryRun:
		return opts.preview(ctx, box, set)
	case opts.plan:
		return opts.makePlan(ctx, set)
	}
	question := set.Action.Verb() + " " + words.Counted(set.Total, set.Action.Noun())
	if set.Releases > 0 {
		question += fmt.Sprintf(" and release %s that wait behind them", words.Counted(set.Releases, "event"))
	}
	if err := opts.app.Confirm(ctx, opts.yes, weight(set.Action, set.Total), question); err != nil {
		return err
	}
	return opts.perform(ctx, box, set)
}

// weight is how many rows a change counts for when it is confirmed.
func weight(action dlq.Action, rows int64) int64 {
	if action == dlq.Erase {
		return cli.Destroys
	}
	return rows
}

// params returns what is wrong with the command line before anything is opened, and reads the ids.
func (o *changeOptions) params() (dlq.ChangeParams, error) {
	p := dlq.ChangeParams{Action: o.action, Actor: o.app.Actor(o.audit), Note: o.audit.Note, Undo: o.undo, Discard: o.discard}
	if err := o.app.RefuseEmpty(cmp.Or(o.filter, &outbox.Query{}).FieldNames()...); err != nil {
		return p, err
	}
	if o.filter != nil {
		f, err := o.filter.Filter(o.app.Now())
		if err != nil {
			return p, err
		}
		o.choose(f, &p)
	}
	p.IDs = o.ids // they are read last: standard input may be among them
	ways, example := o.sources()
	err := p.Check()
	switch {
	case errors.Is(err, dlq.ErrNoSet):
		err = fault.Usagef("specify what to %s: %s", o.action.Verb(), ways)
		return p, fault.Hint(err, "%s", example)
	case err != nil:
		return p, fault.Usagef("specify %s, not both", ways)
	case o.plan && o.dryRun:
		return p, fault.Usagef("--plan changes nothing, so --dry-run does not go with it")
	case o.wait && (o.plan || o.dryRun):
		return p, fault.Usagef("--wait waits for events that are sent, and --plan and --dry-run send none")
	}
	if p.IDs, err = cli.ReadIDs(o.app.In, o.ids); err != nil {
		return p, err
	}
	if len(o.ids) > 0 && len(p.IDs) == 0 {
		return p, fault.Usagef("standard input holds no ids")
	}
	return p, nil
}

// choose makes a filter that leaves something out the choice of rows.
func (o *changeOptions) choose(f outbox.Filter, p *dlq.ChangeParams) {
	switch {
	case !f.Narrows():
	case o.action.OnEvents():
		p.Events = &f
	default:
		p.DeadLetters = &f
	}
}

func (o *changeOptions) preview(ctx context.Context, box *dlq.Outbox, set *dlq.ChangeSet) error {
	rows := o.newRows("looked at", o.action.Would(), set.Total)
	result, err := set.Preview(ctx, dlq.DryRunParams{Force: o.force, OnOutcomes: rows.add})
	if err = rows.close(err); result.Interrupted {
		fmt.Fprintf(o.app.Err, "interrupted after %s\n", words.Counted(result.Total(), "row"))
		return err
	}
	o.summarise(result)
	return o.hint(err, result, set.Action == dlq.Restore || set.Action == dlq.Discard)
}

// makePlan keeps the set as a plan and prints its id.
func (o *changeOptions) makePlan(ctx context.Context, set *dlq.ChangeSet) error {
	bar := o.app.NewProgress("planned", set.Total)
	plan, err := set.Plan(ctx, dlq.PlanParams{OnAdded: func(n int64, _ []dlq.Outcome) error { bar.Add(n); return nil }})
	bar.Done()
	o.sayLeftOut(plan)
	if err != nil {
		return err
	}
	if plan.Total == 0 {
		fmt.Fprintf(o.app.Err, "nothing to %s\n", plan.Action.Verb())
		return o.noPlan()
	}
	force := ""
	if o.force {
		force = " --force"
	}
	fmt.Fprintf(o.app.Err, "%s planned; nothing was changed\nrun it with: outboxctl plan run %s%s\n", words.Counted(plan.Total, plan.Action.Noun()), plan.ID, force)
	return cli.WriteObject(o.app, o.output, plan, func(p *cli.Page) { fmt.Fprintln(p, plan.ID) })
}

// noPlan is the answer where there is nothing to plan: null to a program.
func (o *changeOptions) noPlan() error {
	return cli.WriteObject(o.app, o.output, (*dlq.Plan)(nil), func(*cli.Page) {})
}

func (o *changeOptions) perform(ctx context.Context, box *dlq.Outbox, set *dlq.ChangeSet) error {
	rows := o.newRows("planned", o.action.Success(), set.Total)
	defer cli.SurviveClosedPipe()()
	plan, err := set.Plan(ctx, dlq.PlanParams{AtOnce: true, OnAdded: func(n int64, leftOut []dlq.Outcome) error {
		rows.bar.Add(n)
		return rows.add(leftOut)
	}})
	leftOut := dlq.RunResult{Counts: plan.LeftOut}
	if err != nil {
		switch err = rows.close(err); {
		case ctx.Err() != nil:
			fmt.Fprintln(o.app.Err, "interrupted before anything was changed")
		case len(plan.LeftOut) > 0:
			o.summarise(leftOut)
		}
		return o.hint(err, leftOut, false)
	}
	if plan.Total == 0 { // what was wanted has happened before
		err = rows.close(nil)
		o.summarise(leftOut)
		return err
	}
	fmt.Fprintf(o.app.Err, "plan %s\n", plan.ID)
	return o.runPlan(ctx, box, plan, plan.LeftOut, rows)
}

// runPlan runs a plan and prints what becomes of its rows.
func (o *changeOptions) runPlan(ctx context.Context, box *dlq.Outbox, plan dlq.Plan, leftOut map[string]int64, rows *changeRows) error {
	rows.bar.Done()
	rows.bar = o.app.NewProgress(o.action.Success(), plan.Total-plan.Done)
	result, err := box.RunPlan(ctx, dlq.RunParams{
		ID: plan.ID, Runner: o.app.Actor(o.audit), Rate: float64(o.rate), Watch: o.watch(), LeftOut: leftOut, OnOutcomes: rows.add,
	})
	rows.bar.Done()
	if result.Counts == nil { // it did not begin
		return rows.close(err)
	}
	if len(rows.sent) > 0 {
		o.summarise(result)
		err = rows.close(o.await(ctx, box, rows, err))
	} else {
		err = rows.close(err)
		o.summarise(result)
	}
	goOn := "outboxctl plan run " + plan.ID + o.pace()
	switch {
	case result.Interrupted:
		fmt.Fprintf(o.app.Err, "interrupted after %s; continue with: %s\n", words.Counted(result.Total(), "row"), goOn)
		return err
	case result.Stopped != "":
		return fault.Hint(err, "fix the cause, then continue with: %s", goOn)
	case result.State != dlq.PlanDone:
		return fault.Hint(err, "every row listed is settled; continue with: %s", goOn)
	}
	return o.hint(err, result, plan.Undoes != "")
}

// hint adds what to do about rows that were not changed.
func (o *changeOptions) hint(err error, result dlq.RunResult, undoes bool) error {
	switch missing := result.Counts[dlq.NotFound]; {
	case result.Counts[dlq.Changed] > 0 && undoes:
		return fault.Hint(err, "outboxctl audit --event ID shows who changed it since")
	case result.Counts[dlq.Waiting] > 0:
		return fault.Hint(err, "add --discard to erase events that wait, too: they are then never published")
	case missing > 0 && missing == result.Total():
		return fault.Hint(err, "outboxctl why ID tells what became of an event")
	}
	return err
}

func (o *changeOptions) watch() *dlq.Watch {
	if !o.ramp && !o.abortIfDead.Given {
		return nil
	}
	w := dlq.DefaultWatch()
	w.MaxDead, w.For = o.abortIfDead.Share, o.watchFor
	return &w
}

// pace is the flags by which a run that goes on is as careful as the one before.
func (o *changeOptions) pace() (flags string) {
	if o.rate > 0 {
		flags += " --rate " + o.rate.String()
	}
	switch {
	case o.abortIfDead.Given:
		flags += " --abort-if-dead " + o.abortIfDead.String()
	case o.ramp:
		flags += " --ramp"
	}
	return flags
}

// changeRows prints what becomes of rows, and keeps those that --wait waits for.
type changeRows struct {
	cli.ListWriter[dlq.Outcome]

	opts *changeOptions
	bar  *cli.Progress
	// success is the outcome of what went well. brief: to a person, that is a number.
	success string
	brief   bool
	shown   int64
	sent    []dlq.Outcome
}

func (o *changeOptions) newRows(label, success string, total int64) *changeRows {
	list := cli.NewListWriter(o.app, o.output, o.view())
	form := o.output.Form()
	brief := o.app.OutTTY && (form == cli.FormatTable || form == cli.FormatWide) && total > cli.DefaultLimit
	return &changeRows{ListWriter: list, opts: o, bar: o.app.NewProgress(label, total), success: success, brief: brief}
}

func (r *changeRows) add(outcomes []dlq.Outcome) error {
	for _, row := range outcomes {
		switch {
		case row.Outcome == r.success && r.opts.wait:
			r.sent = append(r.sent, row) // printed when it is known what became of it
		case row.Outcome == r.success && r.brief:
		default:
			if err := r.show(row); err != nil {
				return err
			}
		}
	}
	r.bar.Add(int64(len(outcomes)))
	return nil
}

func (r *changeRows) show(row dlq.Outcome) error {
	if r.shown++; r.brief && r.shown > cli.DefaultLimit {
		return nil
	}
	return r.Write(row)
}

// close ends the list and the progress. err is what went wrong before.
func (r *changeRows) close(err error) error {
	r.bar.Done()
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if unsaid := r.shown - cli.DefaultLimit; r.brief && unsaid > 0 {
		fmt.Fprintf(r.opts.app.Err, "and %s more\n", words.Count(unsaid))
	}
	return err
}
