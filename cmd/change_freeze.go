package cmd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// freezeInDatabase keeps the set as a plan that outboxctl run, or the web page, runs.
func (o *changeOptions) freezeInDatabase(ctx context.Context, set *operate.ChangeSet) error {
	bar, frozen := o.app.NewProgress("frozen", set.Total), int64(0)
	plan, err := set.Store(ctx, func(n int64) { bar.Add(n - frozen); frozen = n })
	bar.Done()
	o.sayLeftOut(set, plan.LeftOut)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.app.Err, "%s frozen in plan %s; nothing was changed\nrun it with: outboxctl run resume %s\n", words.Counted(plan.Total, set.Action.Noun()), plan.ID, plan.ID)
	return nil
}

func (o *changeOptions) sayLeftOut(set *operate.ChangeSet, leftOut map[string]int64) {
	for _, outcome := range slices.Sorted(maps.Keys(leftOut)) {
		fmt.Fprintf(o.app.Err, "left out: %s (%s)\n", words.Counted(leftOut[outcome], set.Action.Noun()), dlq.Explain(outcome))
	}
}

// freezeToFile writes the set to a file. The file appears only when it is whole, and never replaces another.
func (o *changeOptions) freezeToFile(ctx context.Context, set *operate.ChangeSet) error {
	if _, err := os.Lstat(o.plan); err == nil {
		return fault.Preconditionf("write plan: %s exists already", o.plan)
	}
	file, err := os.CreateTemp(filepath.Dir(o.plan), ".outboxctl-plan-*")
	if err != nil {
		return fault.Preconditionf("write plan: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // gone already when the plan was written
	n, leftOut, err := set.Freeze(ctx, file)
	o.sayLeftOut(set, leftOut)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	// A link, unlike a rename, does not replace a file that has appeared meanwhile.
	if err := os.Link(file.Name(), o.plan); err != nil {
		return fault.Preconditionf("write plan: %w", err)
	}
	fmt.Fprintf(o.app.Err, "%s frozen in %s; nothing was changed\napply it with: outboxctl %s %s --apply %s\n",
		words.Counted(n, set.Action.Noun()), safetext.Line(o.plan), set.Action.Group(), set.Action.Verb(), safetext.QuoteWord(o.plan))
	return nil
}
