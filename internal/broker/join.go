package broker

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Join receives from several subscriptions at once, by their names. Concurrency bounds what is under way in all of them.
func Join(names []string, sources []Source, concurrency int) Source {
	return &joined{names: names, sources: sources, slots: make(chan struct{}, max(1, concurrency))}
}

type joined struct {
	names   []string
	sources []Source
	slots   chan struct{}
}

// Receive implements Source. The first error ends it.
func (j *joined) Receive(ctx context.Context, f func(Delivery)) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, source := range j.sources {
		group.Go(func() error {
			return source.Receive(ctx, func(d Delivery) {
				d.Subscription = j.names[i]
				if len(j.sources) > 1 {
					j.slots <- struct{}{}
					defer func() { <-j.slots }()
				}
				f(d)
			})
		})
	}
	return group.Wait()
}

// Permanent implements Source.
func (j *joined) Permanent(err error) bool {
	return err != nil && slices.ContainsFunc(j.sources, func(s Source) bool { return s.Permanent(err) })
}

// About implements Source. Where one subscription gives nothing up, nothing is counted on.
func (j *joined) About() (all About) {
	var warnings []string
	for i, source := range j.sources {
		a := source.About()
		if a.Warning != "" {
			warnings = append(warnings, j.names[i]+": "+a.Warning)
		}
		all.Ordered = all.Ordered || a.Ordered
		if i == 0 || a.MaxDeliveries == 0 || all.MaxDeliveries > 0 && a.MaxDeliveries < all.MaxDeliveries {
			all.MaxDeliveries = a.MaxDeliveries
		}
	}
	if len(j.sources) == 1 {
		all.Warning = j.sources[0].About().Warning
		return all
	}
	all.Warning = strings.Join(warnings, "; ")
	return all
}
