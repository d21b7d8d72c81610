package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// Source hands out messages until its context ends and every message is
// settled. *pubsub.Subscriber is one.
type Source interface {
	Receive(ctx context.Context, f func(context.Context, *pubsub.Message)) error
}

// Dependencies of a Worker. They stay the caller's to close.
type Dependencies struct {
	Source Source
	Guard  *consume.Guard
	// Pool is asked whether the handlers' database is there; nil where they have none.
	Pool    *pgxpool.Pool
	Metrics prometheus.Registerer // may be nil
}

// Worker receives, guards and applies events. Create it with New, run it once.
type Worker struct {
	cfg      Config
	source   Source
	guard    *consume.Guard
	pool     *pgxpool.Pool
	metrics  *metrics
	totals   totals
	parking  parking
	failures failures

	finish context.CancelCauseFunc // ends Run early; set by Run before it receives

	mu        sync.Mutex
	inFlight  map[*pubsub.Message]time.Time // since when; guarded by mu
	lastEvent time.Time                     // guarded by mu
	trouble   error                         // why nothing is received right now; guarded by mu
}

// totals count what the limits and the report need.
type totals struct {
	reserved, acked                                       atomic.Int64
	processed, duplicates, ignored, failed, malformed, in atomic.Int64
}

// Report is what a finished Run did.
type Report struct {
	Received   int64
	Processed  int64
	Duplicates int64
	Ignored    int64
	Failed     int64
	Malformed  int64
}

// errFinished is the cause with which Run ends itself.
var errFinished = errors.New("finished")

// New checks the configuration. It opens nothing.
func New(deps Dependencies, cfg Config) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(cfg.Handlers) == 0 && cfg.Any == nil {
		return nil, errors.New("consumer needs a handler")
	}
	cfg = cfg.withDefaults()
	if deps.Source == nil || deps.Guard == nil {
		return nil, errors.New("consumer needs a source and a guard")
	}
	return &Worker{
		cfg: cfg, source: deps.Source, guard: deps.Guard, pool: deps.Pool,
		metrics:  newMetrics(deps.Guard.Consumer(), deps.Metrics),
		inFlight: map[*pubsub.Message]time.Time{},
	}, nil
}

// Run receives until ctx ends, Count is reached or IdleExit has passed. It
// returns when every message in hand is settled, at most ShutdownTimeout after
// ctx ended. Dependencies that go away are waited for, at start as well.
func (w *Worker) Run(ctx context.Context) (Report, error) {
	ctx, w.finish = context.WithCancelCause(ctx)
	defer w.finish(errFinished)

	// Handlers outlive the order to stop, within bounds.
	work, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	stopTimer := context.AfterFunc(ctx, func() {
		time.AfterFunc(w.cfg.ShutdownTimeout, kill)
		if n := w.busy(); n > 0 {
			w.cfg.Log.Info().Int("handlers", n).Dur("at_most_ms", w.cfg.ShutdownTimeout).Msg("waiting for the handlers under way")
		}
	})
	defer stopTimer()

	var watches sync.WaitGroup
	defer watches.Wait()
	defer w.finish(errFinished)
	watches.Go(func() { w.watchQuiet(ctx) })
	if w.cfg.IdleExit > 0 {
		w.lastEvent = time.Now()
		watches.Go(func() { w.watchIdle(ctx) })
	}

	backoff := retryBase
	for ctx.Err() == nil {
		if w.awaitDependencies(ctx) != nil {
			break
		}
		started := time.Now()
		err := w.session(ctx, work)
		if err == nil {
			continue // paused for a dependency, or told to stop
		}
		if Permanent(err) && w.totals.in.Load() == 0 {
			return w.report(), fmt.Errorf("receive: %w", err)
		}
		w.setTrouble(err)
		w.cfg.Log.Error().Err(err).Dur("retry_in_ms", backoff).Msg("receiving ended")
		if time.Since(started) > retryMax {
			backoff = retryBase
		}
		if wait.For(ctx, backoff) != nil {
			break
		}
		backoff = min(2*backoff, retryMax)
	}
	return w.report(), nil
}

// session receives until ctx ends or a dependency goes away. Nil means that
// this was on purpose.
func (w *Worker) session(ctx, work context.Context) error {
	ctx, pause := context.WithCancelCause(ctx)
	defer pause(nil)
	w.setTrouble(nil)
	err := w.source.Receive(ctx, func(_ context.Context, msg *pubsub.Message) {
		w.handle(ctx, work, pause, msg)
	})
	w.parking.wait()
	if cause := context.Cause(ctx); cause != nil {
		if away := (*awayError)(nil); errors.As(cause, &away) {
			w.setTrouble(cause)
			w.cfg.Log.Warn().Err(cause).Msg("paused receiving")
		}
		return nil
	}
	return err
}

func (w *Worker) report() Report {
	t := &w.totals
	return Report{
		Received: t.in.Load(), Processed: t.processed.Load(), Duplicates: t.duplicates.Load(),
		Ignored: t.ignored.Load(), Failed: t.failed.Load(), Malformed: t.malformed.Load(),
	}
}
