package consumer

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/rs/zerolog"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// stuckAfter is how long beyond its time-out a handler may take to notice.
const stuckAfter = 30 * time.Second

// Healthy is the liveness question: no handler is stuck. A dependency that is
// away is no reason to restart the worker.
func (w *Worker) Healthy(context.Context) error {
	limit := w.cfg.HandlerTimeout + stuckAfter
	w.mu.Lock()
	defer w.mu.Unlock()
	for msg, since := range w.inFlight {
		if held := time.Since(since); held > limit {
			return fmt.Errorf("event %s has been in its handler for %s", msg.Attributes[consume.AttrEventID], held.Round(time.Second))
		}
	}
	return nil
}

// ReadyRedis asks Redis; with ReadyDatabase and Receiving it is the readiness question.
func (w *Worker) ReadyRedis(ctx context.Context) error { return w.guard.Announce(ctx) }

// ReadyDatabase asks PostgreSQL.
func (w *Worker) ReadyDatabase(ctx context.Context) error { return w.pingDatabase(ctx) }

// Receiving returns the reason why nothing is received, or nil.
func (w *Worker) Receiving(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

func (w *Worker) setTrouble(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = err
}

// enter registers a message as in flight, and returns the function that ends that.
func (w *Worker) enter(msg *pubsub.Message) func() {
	started := time.Now()
	w.mu.Lock()
	w.inFlight[msg] = started
	w.lastEvent = started
	w.mu.Unlock()
	w.totals.in.Add(1)
	w.metrics.inFlight.Inc()
	if msg.DeliveryAttempt != nil && *msg.DeliveryAttempt > 1 {
		w.metrics.redelivered.Inc()
	}
	return func() {
		w.mu.Lock()
		delete(w.inFlight, msg)
		w.lastEvent = time.Now()
		w.mu.Unlock()
		w.metrics.inFlight.Dec()
		w.metrics.parked.Set(float64(w.parking.count.Load()))
		w.metrics.duration.Observe(time.Since(started).Seconds())
	}
}

// busy is how many messages are being handled.
func (w *Worker) busy() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.inFlight)
}

// reserve takes a place under Count, so that not one message too many is
// acknowledged. A message that is not acknowledged gives the place back.
func (w *Worker) reserve() bool {
	if w.cfg.Count == 0 {
		return true
	}
	if w.totals.reserved.Add(1) > w.cfg.Count {
		w.totals.reserved.Add(-1)
		return false
	}
	return true
}

// watchIdle ends Run when nothing has arrived, and nothing was under way, for
// IdleExit. While a dependency is away the worker is not idle but waiting.
func (w *Worker) watchIdle(ctx context.Context) {
	for wait.For(ctx, max(w.cfg.IdleExit/10, time.Millisecond)) == nil {
		w.mu.Lock()
		if w.trouble != nil {
			w.lastEvent = time.Now()
		}
		idle := len(w.inFlight) == 0 && w.parking.count.Load() == 0 && time.Since(w.lastEvent) >= w.cfg.IdleExit
		w.mu.Unlock()
		if idle {
			w.finish(errFinished)
			return
		}
	}
}

// watchQuiet logs what may be wrong when no message arrives. It looks once: a
// subscription that has delivered something is the right one.
func (w *Worker) watchQuiet(ctx context.Context) {
	if wait.For(ctx, w.cfg.QuietAfter) != nil || w.totals.in.Load() > 0 || w.Receiving(ctx) != nil {
		return
	}
	w.cfg.Log.Info().Dur("waited_ms", w.cfg.QuietAfter).
		Msg("no message yet: a subscription hands each message to one of its workers only, and has none from before it was made")
}

// fields are the log fields of a message; never its payload.
func fields(e *zerolog.Event, msg *pubsub.Message) *zerolog.Event {
	return e.Str("event_id", msg.Attributes[consume.AttrEventID]).
		Str("event_type", msg.Attributes[consume.AttrEventType]).
		Str("aggregate_id", msg.Attributes[consume.AttrAggregateID]).
		Str("message_id", msg.ID)
}
