// Package consumer is what outboxctl consume adds to a consume.Router: the subscription of
// the broker, metrics, probes, limits (Count, IdleExit), and handlers that hand events to an HTTP
// service (PostTo) or to a command of the shell (RunCommand). How a message is settled is said by
// consume.Router's Run.
package consumer

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/wait"
	"github.com/outboxctl/outboxctl/internal/zlog"
)

const (
	// DefaultConcurrency is how many events are handled at once. Each waits for
	// Redis and PostgreSQL most of the time, so it is far above the cores.
	DefaultConcurrency = 64

	// DefaultConnections to PostgreSQL. A commit waits for the disk, and commits that wait together
	// share one flush: fewer connections than this leave throughput to the disk's latency.
	DefaultConnections = 32

	// DefaultHandlerTimeout bounds one event's handler.
	DefaultHandlerTimeout = 30 * time.Second

	// DefaultQuietAfter is how long a worker waits for its first message before
	// it logs what may be wrong.
	DefaultQuietAfter = 30 * time.Second

	// stuckAfter is how long beyond its time-out a handler may take to notice.
	stuckAfter = 30 * time.Second
)

// Config of a Worker. The zero value means the defaults.
type Config struct {
	HandlerTimeout time.Duration
	// Concurrency bounds the handlers that run at once; 0 leaves it to the source.
	Concurrency int
	// Drain is how long a stopping worker waits for the handlers under way.
	Drain time.Duration
	// Count ends Run after that many acknowledged messages, those of types without
	// a handler included; 0 means never.
	Count int64
	// IdleExit ends Run when no message arrived for that long; 0 means never.
	IdleExit   time.Duration
	QuietAfter time.Duration
	// Database records failures, Subscription names where from and MaxAttempts when an event is given
	// up: as in consume.RouterOptions. Order and deliveries are as the source says.
	Database     consume.DB
	Subscription string
	MaxAttempts  int
	// Wrap, unless it is nil, is put around every handler.
	Wrap func(consume.Handler) consume.Handler
	// Metrics may be nil, Log the zero logger.
	Metrics prometheus.Registerer
	Log     zerolog.Logger
	Hooks   Hooks
}

// Hooks mark the windows in which a crash is interesting. Each may be nil.
type Hooks struct {
	// AfterBegin: Redis holds the lease, nothing has happened yet.
	AfterBegin func(eventID uuid.UUID)
	// AfterEffect: effect and inbox row are committed, Redis says "processing".
	AfterEffect func(eventID uuid.UUID)
	// AfterDone: Redis says "done", the message is not acknowledged.
	AfterDone func(eventID uuid.UUID)
}

// Worker runs a router on a subscription and watches it. Create it with New, register handlers with
// its Router, run it once.
type Worker struct {
	// Router has the handlers.
	Router *consume.Router

	cfg     Config
	source  broker.Source
	metrics *metrics
	finish  context.CancelFunc // ends Run early
	places  chan struct{}      // one for each message under way or acknowledged, Count in all

	mu        sync.Mutex
	handling  map[uuid.UUID]time.Time   // the events whose handlers run, and since when; guarded by mu
	outcomes  map[consume.Outcome]int64 // guarded by mu
	received  int64                     // messages; guarded by mu
	acked     int64                     // guarded by mu
	busy      int                       // messages whose callback has not returned; guarded by mu
	open      int                       // messages neither acknowledged nor given back; guarded by mu
	lastEvent time.Time                 // guarded by mu
	trouble   error                     // why nothing is received right now; guarded by mu
}

// New returns a worker whose router has no handlers. It opens nothing.
func New(source broker.Source, guard *consume.Guard, cfg Config) *Worker {
	cfg.HandlerTimeout = cmp.Or(cfg.HandlerTimeout, DefaultHandlerTimeout)
	cfg.QuietAfter = cmp.Or(cfg.QuietAfter, DefaultQuietAfter)
	if cfg.Wrap == nil {
		cfg.Wrap = func(h consume.Handler) consume.Handler { return h }
	}
	w := &Worker{
		cfg: cfg, source: source, handling: map[uuid.UUID]time.Time{}, outcomes: map[consume.Outcome]int64{},
	}
	if cfg.Count > 0 {
		w.places = make(chan struct{}, cfg.Count) // elements without size need no memory
	}
	w.metrics = newMetrics(w, guard.Consumer(), cfg.Metrics)
	about := source.About()
	w.Router = consume.NewRouter(guard, consume.RouterOptions{
		Timeout: cfg.HandlerTimeout, Concurrency: cfg.Concurrency, Drain: cfg.Drain, Log: zlog.Slog(cfg.Log),
		Wrap: func(h consume.Handler) consume.Handler { return w.watch(cfg.Wrap(h)) },
		Observer: consume.Observer{
			Settled: w.settled, Receiving: w.setTrouble, GaveUp: func(consume.Delivery, error) { w.metrics.gaveUp.Inc() },
		},
		Database: cfg.Database, ErrorText: errorText, Subscription: cfg.Subscription, MaxAttempts: cfg.MaxAttempts,
		Ordered: about.Ordered, MaxDeliveries: about.MaxDeliveries,
	})
	return w
}

// Run receives until ctx ends, Count is reached or IdleExit has passed, as Router.Run does.
func (w *Worker) Run(ctx context.Context) (Report, error) {
	ctx, w.finish = context.WithCancel(ctx)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer w.finish()
	defer context.AfterFunc(ctx, w.logDrain)()
	watches.Go(func() { w.watchQuiet(ctx) })
	if w.cfg.IdleExit > 0 {
		w.lastEvent = time.Now()
		watches.Go(func() { w.watchIdle(ctx) })
	}
	err := w.Router.Run(ctx, w.receive)
	return w.report(), err
}

// receive is the router's source.
func (w *Worker) receive(ctx context.Context, deliver func(consume.Delivery)) error {
	err := w.source.Receive(ctx, func(got broker.Delivery) {
		m := &message{Message: got.Message, worker: w}
		d := consume.Delivery{
			Message: m, ID: got.ID, Attributes: got.Attributes, Body: got.Body, OrderingKey: got.OrderingKey, Attempt: got.Attempt,
			Subscription: got.Subscription,
		}
		defer w.enter(d)()
		m.reserved = w.reserve(ctx)
		deliver(d)
	})
	if err != nil && w.source.Permanent(err) && w.report().Received == 0 {
		return consume.Stop(err)
	}
	return err
}

// reserve waits for a place under Count, so that not one message too many is acknowledged. False
// means that there is no limit, or that the session is over: then the router gives the message
// back.
func (w *Worker) reserve(ctx context.Context) bool {
	if w.places == nil {
		return false
	}
	select {
	case w.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// message tells the worker when it is acknowledged or given back.
type message struct {
	broker.Message
	worker *Worker
	// reserved: it has a place under Count, which it keeps if it is acknowledged.
	reserved bool
}

func (m *message) Ack() {
	m.Message.Ack()
	w := m.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	if w.acked++; w.acked == w.cfg.Count {
		w.finish()
	}
}

func (m *message) Nack() {
	m.Message.Nack()
	if m.reserved {
		<-m.worker.places
	}
	m.worker.mu.Lock()
	defer m.worker.mu.Unlock()
	m.worker.open--
}

// Report is what a finished Run did.
type Report struct {
	Received, Processed, Duplicates, Ignored, Failed, Malformed int64
}

func (w *Worker) report() Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.outcomes
	return Report{
		Received: w.received, Processed: o[consume.Processed] + o[consume.ProcessedUnmarked],
		Duplicates: o[consume.Duplicate] + o[consume.DuplicateInbox], Ignored: o[consume.Ignored],
		Failed: o[consume.Failed], Malformed: o[consume.Invalid],
	}
}

// watchIdle ends Run when nothing has arrived, and nothing was under way, for
// IdleExit. While a dependency is away the worker is not idle but waiting.
func (w *Worker) watchIdle(ctx context.Context) {
	for wait.For(ctx, max(w.cfg.IdleExit/10, time.Millisecond)) == nil {
		w.mu.Lock()
		if w.trouble != nil {
			w.lastEvent = time.Now()
		}
		idle := w.open == 0 && time.Since(w.lastEvent) >= w.cfg.IdleExit
		w.mu.Unlock()
		if idle {
			w.finish()
		}
	}
}

// watchQuiet logs what may be wrong when no message arrives. It looks once: a
// subscription that has delivered something is the right one.
func (w *Worker) watchQuiet(ctx context.Context) {
	if wait.For(ctx, w.cfg.QuietAfter) != nil || w.report().Received > 0 || w.Receiving(ctx) != nil {
		return
	}
	w.cfg.Log.Info().Dur("waited_ms", w.cfg.QuietAfter).
		Msg("no message yet: a subscription hands each message to one of its workers only, and has none from before it was made")
}

func (w *Worker) logDrain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy > 0 {
		w.cfg.Log.Info().Int("handlers", w.busy).Dur("at_most_ms",
			cmp.Or(w.cfg.Drain, consume.DefaultDrain)).
			Msg("waiting for the handlers under way")
	}
}

// Healthy is the liveness question: no handler is stuck. A dependency that is
// away is no reason to restart the worker.
func (w *Worker) Healthy(context.Context) error {
	limit := w.cfg.HandlerTimeout + stuckAfter
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, since := range w.handling {
		if held := time.Since(since); held > limit {
			return fmt.Errorf("event %s has been in its handler for %s", id, held.Round(time.Second))
		}
	}
	return nil
}

// Receiving returns the reason why nothing is received, or nil.
func (w *Worker) Receiving(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}
