package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// errTooLate is why claimed rows were given back unsent.
var errTooLate = errors.New("rows came too late to be sent within their lease")

// Dispatcher moves rows from a Store to a Publisher. Its fields are fixed at construction or guard
// themselves.
type Dispatcher struct {
	cfg       Config
	store     Store
	publisher Publisher
	catalogue Catalogue
	observe   Observer
	waker     Waker

	// plainStream claims rows without an ordering key, orderedStream those with one.
	plainStream, orderedStream *stream

	inFlight *inFlightLimit
	breakers *breakers
	rates    *rates
	settler  *settler
	probes   *rate.Limiter
	// pulse is when the loop last moved.
	pulse atomic.Int64
	// lastClaim is how the latest claim ended.
	lastClaim atomic.Pointer[error]
	// leasesLooked is when a claim last looked for leases whose time is over.
	leasesLooked atomic.Int64

	totals totals

	// groups counts groups between claim and settle; recoveries the goroutines
	// that bring topics back. Run waits for both.
	groups     waitGroup
	recoveries waitGroup

	// running is the first stage's context, abandon the second's; both are set
	// by Run before anything starts.
	running context.Context
	abandon context.Context
}

// New builds a dispatcher. The configuration's problems are reported together.
func New(cfg Config, store Store, publisher Publisher, catalogue Catalogue, observe Observer, waker Waker) (*Dispatcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	d := &Dispatcher{
		cfg: cfg, store: store, publisher: publisher, catalogue: catalogue, observe: observe, waker: waker,
		inFlight: newInFlightLimit(cfg.MaxInFlight, cfg.MaxInFlightBytes, cfg.BatchSize),
		breakers: newBreakers(cfg.Names, cfg.Scope),
		rates:    newRates(catalogue, cfg.Names),
		settler:  newSettler(cfg, store, observe),
		probes:   rate.NewLimiter(probesPerSecond, 1),
	}
	d.plainStream, d.orderedStream = newPlainStream(d), newOrderedStream(d)
	d.beat()
	return d, nil
}

// Run publishes until ctx ends, or, with Once, until nothing is left to claim.
//
// When ctx ends it stops claiming, releases rows it has not sent, waits for
// publishes in flight and settles them. Shortly before ShutdownTimeout is over
// it gives up on what the broker has not answered: those rows keep their lease
// until it expires, because the broker may still store them. The rest of the
// time is for settling what it has.
func (d *Dispatcher) Run(ctx context.Context) error {
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	abandon, giveUp := context.WithCancel(last)
	defer giveUp()
	running, stop := context.WithCancel(ctx)
	defer stop()
	d.running, d.abandon = running, abandon

	quit := make(chan struct{})
	var services sync.WaitGroup
	services.Go(func() { d.limitShutdown(running, quit, giveUp, end) })
	for range d.cfg.Settlers {
		services.Go(func() { d.settler.run(abandon, last, quit) })
	}

	work, workCtx := errgroup.WithContext(running)
	// A drained leader ends its helpers too, but not by their context: a helper
	// that is claiming at this moment would give its rows back unsent.
	drained := make(chan struct{})
	work.Go(func() error {
		defer close(drained)
		return d.plainStream.lead(workCtx)
	})
	work.Go(func() error { return d.orderedStream.lead(workCtx) })
	for range d.cfg.Workers - 1 {
		work.Go(func() error { return d.plainStream.help(workCtx, drained) })
	}
	err := work.Wait()
	stop()

	// Second stage: nothing is claimed any more.
	// A group that fails now may still start a revival, and that, before it
	// notices the end, a group.
	for d.groups.busy() || d.recoveries.busy() {
		d.groups.wait()
		d.recoveries.wait()
	}
	close(quit)
	services.Wait()
	if d.cfg.Once && err == nil && ctx.Err() == nil {
		d.countHeld(ctx)
	}
	return err
}

// limitShutdown counts from the moment the dispatcher is told to stop, whatever
// it is doing: a claim that the database does not answer takes part of the
// shutdown's time, and adds none.
func (d *Dispatcher) limitShutdown(running context.Context, quit <-chan struct{}, giveUp, end context.CancelFunc) {
	select {
	case <-running.Done():
	case <-quit:
		return
	}
	settling := d.cfg.lastSettle()
	for _, stage := range []struct {
		wait time.Duration
		over context.CancelFunc
	}{{d.cfg.ShutdownTimeout - settling, giveUp}, {settling, end}} {
		select {
		case <-time.After(stage.wait):
			stage.over()
		case <-quit:
			return
		}
	}
}

// Topics lists the state of every topic.
func (d *Dispatcher) Topics() []TopicReport { return column(d.breakers.all(), (*breaker).snapshot) }

// TopicReady returns the reason why a topic cannot be published to. The broker is
// asked only when the topic is healthy and has accepted nothing lately, and at once:
// a publisher of many quiet topics would be over the budget of the questions that
// end an outage.
func (d *Dispatcher) TopicReady(ctx context.Context, topic string) error {
	br := d.breakers.at(topic)
	if s := br.snapshot(); s.State != TopicHealthy {
		return fmt.Errorf("%s: %s", s.State, s.Error)
	}
	if !br.quiet(time.Now(), readyFresh) {
		return nil
	}
	return d.ask(ctx, br)
}

// ClaimsReady returns the error of the latest claim. A database that answers a
// ping may still refuse a claim.
func (d *Dispatcher) ClaimsReady() error {
	if err := d.lastClaim.Load(); err != nil {
		return *err
	}
	return nil
}

// InFlight is the number of rows and payload bytes between claim and settle.
func (d *Dispatcher) InFlight() (rows int, bytes int64) { return d.inFlight.load() }

// LastPulse is when the loop last moved. It moves even while the database is
// away: an outage must not look like a hung process, or a supervisor restarts
// every publisher in the middle of it.
func (d *Dispatcher) LastPulse() time.Time { return time.Unix(0, d.pulse.Load()) }

func (d *Dispatcher) beat() { d.pulse.Store(time.Now().UnixNano()) }

// Alive returns an error when the loop has stopped. It waits at most for room in flight,
// which the broker's time-out bounds.
func (d *Dispatcher) Alive() error {
	if still := time.Since(d.LastPulse()); still > 2*d.cfg.PublishTimeout+d.cfg.Lease {
		return fmt.Errorf("the loop has not moved for %s", still.Round(time.Second))
	}
	return nil
}

// paused lists what operators have paused, as claims leave it out. A row that is left out keeps its
// place in its ordering key, so what follows it waits too.
func (d *Dispatcher) paused() (texts []string) {
	for _, p := range d.cfg.Paused() {
		texts = append(texts, p.Texts(d.cfg.Names)...)
	}
	return texts
}

// LookAgain makes the next claims sweeps: something behind the hint may be claimable now.
func (d *Dispatcher) LookAgain() {
	now := time.Now()
	d.plainStream.cursor.rewind(now)
	d.plainStream.detours.rewind(now)
	d.orderedStream.cursor.rewind(now)
	d.orderedStream.nudge()
}
