package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// catalogueEvery is how often the database is asked whether its catalogue has changed.
const catalogueEvery = 5 * time.Second

// watchCatalogue looks at the recorded catalogue until ctx ends. It reports that the engine has to be built again.
func (d *Dispatcher) watchCatalogue(ctx context.Context) bool {
	ticker := time.NewTicker(catalogueEvery)
	defer ticker.Stop()
	var said []string
	follows := d.cfg.Catalogue == nil
	seen := d.live.Own().Recording.Revision
	if !follows {
		seen = d.live.Report().Revision
	}
	for {
		if stood := d.stoodDown(); !slices.Equal(stood, said) {
			if said = stood; len(said) > 0 {
				d.cfg.Log.Warn("leaving event types to publishers with the recorded catalogue: an event does not fit this one's", "types", said)
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		if err := d.live.Refresh(ctx); err != nil && ctx.Err() == nil {
			d.observe.Trouble("catalogue", err)
		}
		report := d.live.Report()
		if report.Revision == seen {
			continue
		}
		seen = report.Revision
		d.cfg.Log.Info("the recorded catalogue has changed", "revision", seen, "unknown", outbox.ByNamespace(report.Unknown).Texts())
		if follows && d.live.Behind() {
			return true
		}
	}
}
