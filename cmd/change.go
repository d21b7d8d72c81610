package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// changeOptions is one change to many rows: replay, discard, restore or republish.
type changeOptions struct {
	app    *cli.App
	action dlq.Action
	// choose builds, from the flags of the command, the filter that selects rows.
	choose func(now time.Time) (changeFilter, error)

	ids            []string
	dryRun         bool
	yes            bool
	plan           string
	apply          string
	rate           rateFlag
	ramp           bool
	abortIfDead    percentFlag
	watchFor       time.Duration
	checkConsumers []string
	audit          cli.AuditFlags
	output         cli.OutputFlag
	again          func(set map[string]string) string
}

// changeFilter is a set of rows that is chosen by what they are.
type changeFilter interface {
	// narrows reports whether anything was said at all.
	narrows() bool
	// frozen returns the filter without what happens from now on, and the flags that say so.
	frozen(now time.Time) (changeFilter, map[string]string)
	source(store *dlq.Store) (dlq.Source, error)
	// describe says on Err what the set consists of and returns its size.
	describe(ctx context.Context, app *cli.App, store *dlq.Store) (int64, error)
	// record is what the plan and the audit row keep of it.
	record() any
}

// chosen is the set a change works on. open starts a pass over it.
type chosen struct {
	open     func() (dlq.Source, error)
	describe func(ctx context.Context) (int64, error)
	byFilter bool
	filter   any
	plan     *dlq.PlanHeader
	resume   map[string]string
}

func runChange(ctx context.Context, opts *changeOptions) error {
	ids, err := opts.check()
	if err != nil {
		return err
	}
	var plan *planFile
	if opts.apply != "" {
		if plan, err = openPlanFile(opts.apply, opts.action); err != nil {
			return err
		}
		defer plan.close()
	}
	store, err := opts.app.Store(ctx)
	if err != nil {
		return err
	}
	set, err := opts.chooseSet(ctx, store, ids, plan)
	if err != nil {
		return err
	}
	if opts.plan != "" {
		return opts.writePlan(ctx, store, set)
	}
	total, err := set.describe(ctx)
	if err != nil {
		return dlqError(err)
	}
	if total == 0 {
		fmt.Fprintf(opts.app.Err, "nothing to %s\n", opts.verb())
		return cli.WriteList(opts.app, opts.output.Format, outcomeView(), nil)
	}
	if err := opts.sayConsumers(ctx, set); err != nil {
		return err
	}
	if !opts.dryRun {
		question := fmt.Sprintf("%s %s", opts.verb(), counted(total, opts.noun()))
		if err := opts.app.Confirm(ctx, opts.yes, question); err != nil {
			return err
		}
	}
	return opts.perform(ctx, store, set, total)
}

// chooseSet turns ids, filter or plan into the set to work on.
func (o *changeOptions) chooseSet(ctx context.Context, store *dlq.Store, ids []string, plan *planFile) (chosen, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return chosen{}, dlqError(err)
	}
	switch {
	case plan != nil:
		here, err := store.Identity(ctx)
		if err != nil {
			return chosen{}, dlqError(err)
		}
		if err := plan.belongs(here); err != nil {
			return chosen{}, err
		}
		return chosen{
			open:     plan.source,
			describe: func(context.Context) (int64, error) { plan.describe(o.app); return plan.count, nil },
			plan:     &plan.header,
			filter:   plan.header.Filter,
		}, nil
	case len(ids) > 0:
		return chosen{
			open:     func() (dlq.Source, error) { return o.named(store, ids), nil },
			describe: func(ctx context.Context) (int64, error) { return int64(len(ids)), o.describeIDs(ctx, store, ids) },
		}, nil
	}
	filter, err := o.choose(now)
	if err != nil {
		return chosen{}, err
	}
	filter, resume := filter.frozen(now)
	return chosen{
		open: func() (dlq.Source, error) { return filter.source(store) },
		describe: func(ctx context.Context) (int64, error) {
			n, err := filter.describe(ctx, o.app, store)
			if err == nil {
				fmt.Fprintf(o.app.Err, "%s %s\n", o.would(), counted(n, o.noun()))
			}
			return n, err
		},
		byFilter: true,
		filter:   filter.record(),
		resume:   resume,
	}, nil
}

func (o *changeOptions) named(store *dlq.Store, ids []string) dlq.Source {
	switch o.action {
	case dlq.Republish:
		return store.NamedEvents(ids)
	case dlq.Restore:
		return store.NamedEntries(ids, dlq.StateDiscarded)
	default:
		return store.NamedEntries(ids, dlq.StateOpen)
	}
}

// perform changes the set, or says what a change would do.
func (o *changeOptions) perform(ctx context.Context, store *dlq.Store, set chosen, total int64) error {
	source, err := set.open()
	if err != nil {
		return err
	}
	runID := uuid.NewString()
	detail := map[string]any{"runId": runID}
	if set.filter != nil {
		detail["filter"] = set.filter
	}
	if set.plan != nil {
		detail["planId"] = set.plan.ID
	}
	list := cli.NewListWriter(o.app, o.output.Format, outcomeView())
	// A person wants to see what did not work; the thousands that did are a number.
	brief := o.app.OutTTY && (o.output.Format == cli.FormatTable || o.output.Format == cli.FormatWide) && total > defaultListLimit
	label := o.past()
	if o.dryRun {
		label = "looked at"
	}
	bar := o.app.NewProgress(label, total)
	if !o.dryRun {
		defer cli.SurviveClosedPipe()()
		fmt.Fprintf(o.app.Err, "run %s\n", runID)
	}
	result, err := store.Run(ctx, dlq.RunParams{
		Action: o.action, Source: source, Who: dlq.Who{Actor: o.app.Actor(o.audit), Reason: o.audit.Reason},
		Detail: detail, DryRun: o.dryRun, Rate: float64(o.rate), Watch: o.watch(), Plan: set.plan,
		OnOutcomes: func(outcomes []dlq.Outcome) error {
			for _, outcome := range outcomes {
				if brief && outcome.Outcome == o.action.Success() {
					continue
				}
				if err := list.Write(outcome); err != nil {
					return err
				}
			}
			bar.Add(int64(len(outcomes)))
			return nil
		},
	})
	bar.Done()
	if closeErr := list.Close(); err == nil {
		err = closeErr
	}
	o.summarise(result)
	return o.verdict(ctx, set, result, err)
}

func (o *changeOptions) watch() *dlq.Watch {
	if !o.ramp && !o.abortIfDead.set {
		return nil
	}
	return &dlq.Watch{MaxDead: o.abortIfDead.share, For: o.watchFor, Every: min(o.watchFor, 250*time.Millisecond)}
}

// verdict is the error, and with it the exit code, that a run deserves.
func (o *changeOptions) verdict(ctx context.Context, set chosen, r dlq.RunResult, err error) error {
	done := r.Counts[o.action.Success()]
	switch {
	case r.Interrupted:
		fmt.Fprintf(o.app.Err, "interrupted after %s; go on with: %s\n", counted(r.Total(), "row"), o.again(set.resume))
		return ctx.Err() // the process ends with the signal's code; everything else was said
	case err != nil && r.Chunks > 0:
		return fault.Hint(fault.As(fault.Partial, fmt.Errorf("stopped after %s: %w", counted(r.Total(), "row"), dlqError(err))),
			"every row listed is settled; go on with: %s", o.again(set.resume))
	case err != nil:
		return dlqError(err)
	case r.Stopped != "":
		return fault.Hint(fault.Partialf("stopped by itself: %s", r.Stopped), "mend the cause, then go on with: %s", o.again(set.resume))
	}
	bad := r.Total() - done - r.Counts[dlq.DoneByPlan]
	if set.byFilter {
		// Another operator was faster: what was wanted has happened.
		bad -= r.Counts[dlq.AlreadyReplayed] + r.Counts[dlq.AlreadyDiscarded] + r.Counts[dlq.AlreadyOpen]
	}
	switch {
	case bad == 0:
		return nil
	case r.Counts[dlq.NotFound] == r.Total():
		return fault.Hint(fault.NotFoundf("not found: %s", counted(bad, "id")), "outboxctl why ID tells what became of an event")
	case done+r.Counts[dlq.DoneByPlan] > 0:
		return fault.Partialf("%s of %s could not be %s", humanize.Comma(bad), counted(r.Total(), o.noun()), o.past())
	default:
		return fault.Preconditionf("none of %s could be %s", counted(r.Total(), o.noun()), o.past())
	}
}

// check says what is wrong with the command line before anything is opened, and reads the ids.
func (o *changeOptions) check() ([]string, error) {
	if err := o.app.RefuseEmpty(append(filterFlags(), "plan", "apply")...); err != nil {
		return nil, err
	}
	filter, err := o.choose(o.app.Now())
	if err != nil {
		return nil, err
	}
	sources := 0
	for _, given := range []bool{len(o.ids) > 0, filter.narrows(), o.apply != ""} {
		if given {
			sources++
		}
	}
	switch {
	case sources == 0:
		return nil, fault.Hint(fault.Usagef("say what to %s: %s", o.verb(), o.sources()), "%s", o.noSetHint())
	case sources > 1:
		return nil, fault.Usagef("give %s, only one of them", o.sources())
	case o.plan != "" && (o.apply != "" || o.dryRun):
		return nil, fault.Usagef("--plan changes nothing, so --apply and --dry-run do not go with it")
	}
	ids, err := readIDs(o.app.In, o.ids)
	if err != nil {
		return nil, err
	}
	if len(o.ids) > 0 && len(ids) == 0 {
		return nil, fault.Usagef("standard input holds no ids")
	}
	return ids, nil
}
