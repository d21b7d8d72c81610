package relay

import (
	"context"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// catalogueEvery is how often the database is asked whether its catalogue has changed.
const catalogueEvery = 5 * time.Second

// watchCatalogue looks at the recorded catalogue until ctx ends. It reports that the dispatcher has to be built again.
func (r *Relay) watchCatalogue(ctx context.Context) bool {
	ticker := time.NewTicker(catalogueEvery)
	defer ticker.Stop()
	var said []string
	seen := r.live.Own().Recording.Revision
	if !r.params.Follows {
		seen = r.live.Report().Revision
	}
	for {
		if stood := r.StoodDown(); !slices.Equal(stood, said) {
			if said = stood; len(said) > 0 {
				r.params.Log.Warn("leaving event types to publishers with the recorded catalogue: an event does not fit this one's", "types", said)
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		if err := r.live.Refresh(ctx); err != nil && ctx.Err() == nil {
			r.params.Observe.Trouble("catalogue", err)
		}
		report := r.live.Report()
		if report.Revision == seen {
			continue
		}
		seen = report.Revision
		r.params.Log.Info("the recorded catalogue has changed", "revision", seen, "unknown", outbox.ByNamespace(report.Unknown).Texts())
		if r.params.Follows && r.live.Behind() {
			return true
		}
	}
}
