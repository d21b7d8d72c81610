package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

func (o *changeOptions) verb() string {
	_, verb, _ := strings.Cut(string(o.action), ".")
	return verb
}

func (o *changeOptions) past() string { return o.action.Success() }

func (o *changeOptions) noun() string {
	if o.action == dlq.Republish {
		return "published event"
	}
	return "dead letter"
}

// would announces a change, or a look at one.
func (o *changeOptions) would() string {
	if o.dryRun {
		return "would " + o.verb()
	}
	return "about to " + o.verb()
}

// sources names the ways to say what to change. Only what is sent again can be planned first.
func (o *changeOptions) sources() string {
	if o.action == dlq.Replay || o.action == dlq.Republish {
		return "ids, filters or --apply"
	}
	return "ids or filters"
}

func (o *changeOptions) noSetHint() string {
	if o.action == dlq.Republish {
		return "outboxctl event republish --type order_created --since 2h --dry-run"
	}
	hint := fmt.Sprintf("outboxctl dlq %s --error-reason max_attempts --dry-run", o.verb())
	if slices.Contains(outbox.DeadReasons(), o.audit.Reason) {
		hint += "; --reason is what the audit trail records, --error-reason filters"
	}
	return hint
}

// describeIDs says what the first few of the ids are.
func (o *changeOptions) describeIDs(ctx context.Context, store *dlq.Store, ids []string) error {
	const few = 5
	targets, err := o.named(store, ids[:min(few, len(ids))]).Next(ctx, few)
	if err != nil {
		return err
	}
	var known []string
	for _, t := range targets {
		if t.ID != "" {
			known = append(known, t.ID)
		}
	}
	if o.action == dlq.Republish {
		events, err := store.Events(ctx, known)
		if err != nil {
			return err
		}
		for _, e := range events {
			fmt.Fprintf(o.app.Err, "  %s %s, %s\n", e.ID, e.EventType, e.Status)
		}
	} else {
		entries, err := store.Entries(ctx, known)
		if err != nil {
			return err
		}
		for _, e := range entries {
			fmt.Fprintf(o.app.Err, "  %s %s, %s, %s: %s\n", e.ID, e.EventType, e.State, e.Reason, safetext.Cut(safetext.Line(e.ErrorMessage), 160))
		}
	}
	if more := len(ids) - few; more > 0 {
		fmt.Fprintf(o.app.Err, "  and %s more\n", humanize.Comma(int64(more)))
	}
	fmt.Fprintf(o.app.Err, "%s %s\n", o.would(), counted(int64(len(ids)), o.noun()))
	return nil
}

func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return humanize.Comma(n) + " " + noun + "s"
}

// summarise says on Err how many rows had which outcome.
func (o *changeOptions) summarise(r dlq.RunResult) {
	var parts []string
	success := o.action.Success()
	done := humanize.Comma(r.Counts[success]) + " " + success
	if o.dryRun {
		done = humanize.Comma(r.Counts[success]) + " would be " + success
	}
	parts = append(parts, done)
	for _, outcome := range slices.Sorted(maps.Keys(r.Counts)) {
		if outcome != success {
			parts = append(parts, humanize.Comma(r.Counts[outcome])+" "+dlq.Explain(outcome))
		}
	}
	fmt.Fprintln(o.app.Err, strings.Join(parts, "; "))
	if w := r.Watched; w != (dlq.Watched{}) {
		fmt.Fprintf(o.app.Err, "of the events sent again %s were delivered, %s died again, %s keep failing, %s were not tried yet\n",
			humanize.Comma(w.Delivered), humanize.Comma(w.Dead), humanize.Comma(w.Failing), humanize.Comma(w.Waiting))
	}
	if r.Counts[dlq.EventGone] > 0 {
		fmt.Fprintln(o.app.Err, "events removed by cleanup can be emitted anew from outboxctl dlq export")
	}
}

// sayConsumers shows what the consumers' stores say about the set.
func (o *changeOptions) sayConsumers(ctx context.Context, set chosen) error {
	if len(o.checkConsumers) == 0 {
		return nil
	}
	marks, err := o.app.Marks()
	if err != nil {
		return err
	}
	source, err := set.open()
	if err != nil {
		return err
	}
	counts, err := dlq.CountMarks(ctx, marks, o.checkConsumers, source)
	if err != nil {
		return fault.Hint(fault.Preconditionf("ask the consumers' store: %w", err), "leave --check-consumers out to go on without asking")
	}
	some := false
	for _, c := range counts {
		some = some || c.Processed > 0
		fmt.Fprintf(o.app.Err, "consumer %s: %s already processed, %s being processed, %s not seen\n",
			safetext.Line(c.Consumer), humanize.Comma(c.Processed), humanize.Comma(c.Processing), humanize.Comma(c.Unknown))
	}
	if some {
		fmt.Fprintln(o.app.Err, "a consumer skips what it has already processed; outboxctl idem forget makes it process an event again")
	}
	return nil
}
