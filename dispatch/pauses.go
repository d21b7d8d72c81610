package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

const (
	// pausesEvery is how often the database is asked what is paused: a pause is obeyed within a
	// second, at two reads of a table of a few rows each second, beside the claims and not in them.
	pausesEvery = 500 * time.Millisecond
	// pausesTimeout bounds one read. What was read last is obeyed until the database answers again.
	pausesTimeout = 5 * time.Second
	// sharesEvery is after how many of these reads the live publishers are counted, where a type has a
	// rate.
	sharesEvery = 4
)

// watchPauses keeps what is paused current until ctx ends.
func (d *Dispatcher) watchPauses(ctx context.Context) {
	ticker := time.NewTicker(pausesEvery)
	defer ticker.Stop()
	for ticks := 0; ; ticks++ {
		if ticks%sharesEvery == 0 {
			d.shareRates(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := d.readPauses(ctx); err != nil && ctx.Err() == nil {
			d.observe.Trouble("pauses", err)
		}
	}
}

// shareRates takes this dispatcher's part of the rates of event types.
func (d *Dispatcher) shareRates(ctx context.Context) {
	engine := d.engine.Load()
	if engine == nil || !engine.Rated() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pausesTimeout)
	defer cancel()
	peers, err := dispatch.Peers(ctx, d.cfg.Claims)
	if err != nil {
		d.observe.Trouble("publishers", err)
		return
	}
	engine.ShareRates(func(namespace, eventType string) int {
		n := 1
		for _, p := range peers {
			if p.Alive && p.ID != d.identity.ID && p.State.Takes.Has(namespace, eventType) {
				n++
			}
		}
		return n
	})
}

// readPauses reads what is paused, tells what has changed and, where a pause has ended, makes the
// dispatcher look at what it had passed over.
func (d *Dispatcher) readPauses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pausesTimeout)
	defer cancel()
	now, err := outbox.Pauses(ctx, d.cfg.Claims)
	if err != nil {
		return err
	}
	before := d.paused()
	d.pauses.Store(&now)
	begun := missing(now, before)
	for _, p := range begun {
		d.cfg.Log.Warn("paused", "kind", p.Kind, "value", p.Value, "actor", p.Actor, "note", p.Note)
	}
	ended := missing(before, now)
	for _, p := range ended {
		d.cfg.Log.Info("no longer paused", "kind", p.Kind, "value", p.Value)
	}
	if len(begun)+len(ended) > 0 {
		select {
		case d.pausesChanged <- struct{}{}:
		default: // it is asked to already
		}
	}
	if engine := d.engine.Load(); engine != nil && len(ended) > 0 {
		engine.LookAgain()
	}
	return nil
}

// paused is what was paused when the database was asked last.
func (d *Dispatcher) paused() []outbox.Pause {
	if p := d.pauses.Load(); p != nil {
		return *p
	}
	return nil
}

// missing are the pauses of list that are not in the other one.
func missing(list, other []outbox.Pause) []outbox.Pause {
	return slices.DeleteFunc(slices.Clone(list), func(p outbox.Pause) bool {
		return slices.ContainsFunc(other, func(o outbox.Pause) bool { return o.Kind == p.Kind && o.Value == p.Value })
	})
}
