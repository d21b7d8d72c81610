package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/consume"
)

const (
	retryBase   = 200 * time.Millisecond
	retryMax    = 5 * time.Second
	pingTimeout = 3 * time.Second

	// stuckAfter is how long beyond its time-out a handler may take to notice.
	stuckAfter = 30 * time.Second
)

// awayError pauses receiving.
type awayError struct {
	dependency string
	err        error
}

func (e *awayError) Error() string { return e.dependency + " is away: " + e.err.Error() }
func (e *awayError) Unwrap() error { return e.err }

func awayDependency(err error) string {
	if errors.Is(err, errDatabaseAway) {
		return dependencyDatabase
	}
	return dependencyRedis
}

var errReadOnly = errors.New("the database is read-only")

// awaitDependencies returns when Redis and PostgreSQL take writes. Receiving
// without them would only nack, and every nack brings a message closer to its
// dead letter topic. An answer alone proves nothing: a Redis without memory and
// a standby answer all day.
func (w *Worker) awaitDependencies(ctx context.Context) error {
	delay, waited := retryBase, false
	for {
		away := w.pingAll(ctx)
		if away == nil {
			w.metrics.setAway("")
			if waited {
				w.cfg.Log.Info().Msg("dependencies are back")
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.setTrouble(away)
		w.metrics.setAway(away.dependency)
		if !waited {
			w.cfg.Log.Warn().Err(away).Msg("waiting for a dependency")
			waited = true
		}
		if !sleep(ctx, delay) {
			return ctx.Err()
		}
		delay = min(2*delay, retryMax)
	}
}

func (w *Worker) pingAll(ctx context.Context) *awayError {
	if err := w.guard.Announce(ctx); err != nil {
		return &awayError{dependencyRedis, err}
	}
	if err := w.pingDatabase(ctx); err != nil {
		return &awayError{dependencyDatabase, err}
	}
	return nil
}

func (w *Worker) pingDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	var readOnly bool
	if err := w.pool.QueryRow(ctx, `SELECT current_setting('transaction_read_only')::bool`).Scan(&readOnly); err != nil {
		return fmt.Errorf("ping the database: %w", err)
	}
	if readOnly {
		return errReadOnly
	}
	return nil
}

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

// Receiving says why nothing is received, if so.
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

// enter books a message in, and returns what books it out.
func (w *Worker) enter(msg *pubsub.Message) func() {
	started := time.Now()
	w.mu.Lock()
	w.inFlight[msg] = started
	w.lastEvent = started
	w.mu.Unlock()
	w.tally.in.Add(1)
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
// acknowledged. Whoever does not acknowledge gives the place back.
func (w *Worker) reserve() bool {
	if w.cfg.Count == 0 {
		return true
	}
	if w.tally.reserved.Add(1) > w.cfg.Count {
		w.tally.reserved.Add(-1)
		return false
	}
	return true
}

func (w *Worker) touch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastEvent = time.Now()
}

// watchIdle ends Run when nothing has arrived, and nothing was under way, for
// IdleExit. While a dependency is away the worker is not idle but waiting.
func (w *Worker) watchIdle(ctx context.Context) {
	for sleep(ctx, max(w.cfg.IdleExit/10, time.Millisecond)) {
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

// watchQuiet explains a silence that a person may be waiting in. It looks once:
// a subscription that has delivered something is the right one.
func (w *Worker) watchQuiet(ctx context.Context) {
	if !sleep(ctx, w.cfg.QuietAfter) || w.tally.in.Load() > 0 || w.Receiving(ctx) != nil {
		return
	}
	w.cfg.Log.Info().Dur("waited", w.cfg.QuietAfter).
		Msg("no message yet: a subscription hands each message to one of its workers only, and has none from before it was made")
}

// Permanent says whether a receive error needs a person: a subscription that
// does not exist, or may not be read.
func Permanent(err error) bool {
	switch status.Code(err) {
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition:
		return true
	default:
		return false
	}
}

// sleep waits and says whether it was allowed to wait to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fields are the log fields of a message; never its payload.
func fields(e *zerolog.Event, msg *pubsub.Message) *zerolog.Event {
	return e.Str("event_id", msg.Attributes[consume.AttrEventID]).
		Str("event_type", msg.Attributes[consume.AttrEventType]).
		Str("aggregate_id", msg.Attributes[consume.AttrAggregateID]).
		Str("message_id", msg.ID)
}
