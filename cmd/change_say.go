package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// sources names the ways to say what to change, and a command that does.
func (o *changeOptions) sources() (ways, example string) {
	ways = "ids or filters"
	switch o.action {
	case dlq.Republish:
		return ways, "outboxctl event republish --type order_created --since 2h --dry-run"
	case dlq.Retry:
		return "ids", "outboxctl event list --status pending -o id | outboxctl event retry -"
	case dlq.Erase:
		return "ids, --aggregate or --tenant", "outboxctl erase --aggregate TYPE/ID --dry-run"
	default:
		return ways, "outboxctl dlq " + o.action.Verb() + " --reason max_attempts --dry-run"
	}
}

// describe says on Err what the set consists of.
func (o *changeOptions) describe(set *dlq.ChangeSet) {
	w := o.app.Err
	for _, g := range set.Reasons {
		fmt.Fprintf(w, "  %s: %s, last %s, for example %s: %s\n", g.Value, words.Counted(g.Count, "dead letter"),
			g.LastSeen.UTC().Format(time.RFC3339), g.SampleID, safetext.Cut(safetext.Line(g.SampleError), 160))
	}
	if o.app.InTTY {
		for _, g := range set.Causes {
			fmt.Fprintf(w, "  cause %s: %s\n", safetext.Line(g.Value), words.Counted(g.Count, "dead letter"))
		}
	}
	for _, e := range set.Events {
		fmt.Fprintf(w, "  %s %s, %s\n", e.ID, safetext.Line(e.EventType), e.Status)
	}
	for _, e := range set.Letters {
		fmt.Fprintf(w, "  %s %s, %s, %s: %s\n", e.ID, safetext.Line(e.EventType), e.State, e.Reason, safetext.Cut(safetext.Line(e.ErrorMessage), 160))
	}
	if shown := int64(len(set.Events) + len(set.Letters)); shown > 0 && set.Total > shown {
		fmt.Fprintf(w, "  and %s more\n", words.Count(set.Total-shown))
	}
	switch {
	case set.First != nil && o.action == dlq.Erase:
		fmt.Fprintf(w, "  %s, for example %s\n", words.Counted(set.Total, "event"), set.First.ID)
	case set.First != nil:
		fmt.Fprintf(w, "  %s, published from %s to %s, for example %s\n", words.Counted(set.Total, "event"),
			set.First.At.UTC().Format(time.RFC3339), set.Last.At.UTC().Format(time.RFC3339), set.First.ID)
	}
	if o.action == dlq.Erase && set.Total > 0 {
		fmt.Fprintf(w, "this cannot be undone, and does not reach %s\n", dlq.NotErased)
	}
	if set.Releases > 0 {
		fmt.Fprintf(w, "  %s behind them in their ordering keys are released\n", words.Counted(set.Releases, "event"))
	}
	if set.Behind > 0 {
		fmt.Fprintf(w, "  %s of them stay parked: a dead event before them in their ordering key is not replayed\n", words.Count(set.Behind))
	}
	if set.Total == 0 || o.app.InTTY && !o.yes && !o.dryRun && !o.plan {
		return // there is nothing to do, or the question says it
	}
	would := "about to "
	switch {
	case o.dryRun:
		would = "would "
	case o.plan:
		would = "about to plan to "
	}
	what := words.Counted(set.Total, set.Action.Noun())
	fmt.Fprintf(w, "%s%s %s%s\n", would, o.action.Verb(), what, o.app.Where())
}

// summarise says on Err how many rows had which outcome.
func (o *changeOptions) summarise(r dlq.RunResult) {
	success := o.action.Success()
	done := words.Count(r.Counts[success]) + " " + success
	if o.dryRun {
		success = o.action.Would()
		done = words.Count(r.Counts[success]) + " would be " + o.action.Success()
	}
	others := maps.Clone(r.Counts)
	delete(others, success)
	parts := append([]string{done + o.app.Where()}, countTexts(others)...)
	fmt.Fprintln(o.app.Err, strings.Join(parts, "; "))
	if w := r.Watched; w.All() > 0 {
		fmt.Fprintf(o.app.Err, "of the events sent again %s were published, %s died again, %s keep failing, %s were not tried yet\n",
			words.Count(w.Published), words.Count(w.Dead), words.Count(w.Failing), words.Count(w.Waiting))
	}
	if r.Counts[dlq.EventGone] > 0 {
		fmt.Fprintln(o.app.Err, "events removed by cleanup can be emitted again from outboxctl dlq export")
	}
}

// sayConsumers shows what the consumers' stores say about the set.
func (o *changeOptions) sayConsumers(ctx context.Context, set *dlq.ChangeSet) error {
	if len(o.checkConsumers) == 0 {
		return nil
	}
	counts, err := set.Marks(ctx, o.checkConsumers)
	if err != nil {
		return fault.Hint(err, "leave out --check-consumers to continue without asking")
	}
	some := false
	for _, c := range counts {
		some = some || c.Processed > 0
		fmt.Fprintf(o.app.Err, "consumer %s: %s already processed, %s being processed, %s not seen\n",
			safetext.Line(c.Consumer), words.Count(c.Processed), words.Count(c.Processing), words.Count(c.Unknown))
	}
	if some {
		fmt.Fprintln(o.app.Err, "a consumer skips what it has already processed; outboxctl consumer forget makes it process an event again")
	}
	return nil
}

// sayLeftOut says on Err what a plan leaves out.
func (o *changeOptions) sayLeftOut(plan dlq.Plan) {
	for _, outcome := range slices.Sorted(maps.Keys(plan.LeftOut)) {
		fmt.Fprintf(o.app.Err, "left out: %s (%s)\n", words.Counted(plan.LeftOut[outcome], plan.Action.Noun()), dlq.Explain(outcome))
	}
}

// await waits for what becomes of the events that were sent, and writes each as soon as it is
// known. ran is the error of the change itself.
func (o *changeOptions) await(ctx context.Context, box *dlq.Outbox, rows *changeRows, ran error) error {
	rows.bar = o.app.NewProgress("settled", int64(len(rows.sent)))
	sum, err := box.Await(ctx, dlq.AwaitParams{Sent: rows.sent, Timeout: o.timeout, OnSettled: func(row dlq.Outcome) error {
		rows.bar.Add(1)
		if rows.brief && row.Became == dlq.BecamePublished {
			return nil
		}
		return rows.show(row)
	}})
	rows.bar.Done()
	fmt.Fprintf(o.app.Err, "%s published, %s died again, %s keep failing, %s still waiting\n",
		words.Count(sum.Published), words.Count(sum.Dead), words.Count(sum.Failing), words.Count(sum.Waiting))
	return cmp.Or(ran, err)
}
