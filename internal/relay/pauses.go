package relay

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

const (
	// pausesEvery is how often the database is asked what is paused: a pause is obeyed within a second, at two reads of a
	// table of a few rows each second, beside the claims and not in them.
	pausesEvery = 500 * time.Millisecond
	// pausesTimeout bounds one read. What was read last is obeyed until the database answers again.
	pausesTimeout = 5 * time.Second
)

// watchPauses keeps what is paused current until ctx ends.
func (r *Relay) watchPauses(ctx context.Context) {
	ticker := time.NewTicker(pausesEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := r.readPauses(ctx); err != nil && ctx.Err() == nil {
			r.params.Observe.Trouble("pauses", err)
		}
	}
}

// readPauses reads what is paused, tells what has changed and, where a pause has ended, makes the dispatcher look at what
// it had passed over.
func (r *Relay) readPauses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pausesTimeout)
	defer cancel()
	now, err := outbox.Pauses(ctx, r.params.Claims)
	if err != nil {
		return err
	}
	before := r.Pauses()
	r.pauses.Store(&now)
	begun := missing(now, before)
	for _, p := range begun {
		r.params.Log.Warn("paused", "kind", p.Kind, "value", p.Value, "actor", p.Actor, "note", p.Note)
	}
	ended := missing(before, now)
	for _, p := range ended {
		r.params.Log.Info("no longer paused", "kind", p.Kind, "value", p.Value)
	}
	if len(begun)+len(ended) > 0 {
		select {
		case r.changed <- struct{}{}:
		default: // it is asked to already
		}
	}
	if d := r.Dispatcher(); d != nil && len(ended) > 0 {
		d.LookAgain()
	}
	return nil
}

// Pauses is what was paused when the database was asked last.
func (r *Relay) Pauses() []outbox.Pause {
	if p := r.pauses.Load(); p != nil {
		return *p
	}
	return nil
}

// missing are the pauses of list that are not in the other one.
func missing(list, other []outbox.Pause) (out []outbox.Pause) {
	there := make(map[[2]string]bool, len(other))
	for _, p := range other {
		there[[2]string{p.Kind, p.Value}] = true
	}
	for _, p := range list {
		if !there[[2]string{p.Kind, p.Value}] {
			out = append(out, p)
		}
	}
	return out
}
