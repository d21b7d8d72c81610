package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/wait"
)

const (
	// probesPerSecond bounds the readiness requests of recovering topics together.
	probesPerSecond = 4
	probeMin        = 250 * time.Millisecond
	probeMax        = 5 * time.Second
	probeTimeout    = 5 * time.Second
	// trialMisses is how many trials in a row must find no row before a topic
	// that has refused everything is tried with the next that comes.
	trialMisses = 3

	// readyFresh is how recently a topic must have accepted something to be
	// called ready without asking.
	readyFresh = 5 * time.Second
)

// tripped announces a topic that has just failed and starts its recovery, after the time
// that the broker has asked for.
func (d *Dispatcher) tripped(br *breaker, failed bool, after time.Duration) {
	if !failed {
		return
	}
	d.plainStream.batchSize.shrink()
	d.observe.TopicChanged(br.snapshot())
	d.recoveries.add(1)
	go func() {
		defer d.recoveries.add(-1)
		if wait.For(d.running, after) == nil {
			d.recoverTopic(d.running, br)
		}
	}()
}

// recoverTopic brings a topic back: it asks the broker, with growing pauses,
// until it answers, then puts one row on trial, and calls the topic healthy when
// that row is accepted. The first question is asked at once, so that a single
// failed request costs a healthy topic a few milliseconds.
func (d *Dispatcher) recoverTopic(ctx context.Context, br *breaker) {
	pause := wire.Backoff{Min: probeMin, Max: probeMax}
	for try, missed := 1, 0; ; try++ {
		err := d.askInTurn(ctx, br)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if !br.refusing() { // such a topic answers all the time
				d.change(br, TopicRecovering, nil)
			}
			var result trialResult
			// What the topic refuses may all have no key, or all have one: only another row ends that.
			if result, err = d.trial(ctx, br, br.refusing() && try%2 == 0); result == trialNoRow {
				missed++
			} else {
				missed = 0
			}
			// Rows of a topic that refuses everything are due at once: none is
			// found only while others hold all of them, or when they are gone.
			if result == trialAnswered || (result == trialNoRow && (missed >= trialMisses || !br.refusing())) {
				d.change(br, TopicHealthy, nil)
				d.LookAgain() // its rows were passed over
				return
			}
		}
		if err != nil {
			d.change(br, stateFor(err), err)
		}
		if wait.For(ctx, max(pause.Jittered(try, d.cfg.Random()), waitOf(err))) != nil {
			return
		}
	}
}

// askInTurn sends one readiness request, within the budget all topics share.
func (d *Dispatcher) askInTurn(ctx context.Context, br *breaker) error {
	if err := d.probes.Wait(ctx); err != nil {
		return err
	}
	return d.ask(ctx, br)
}

func (d *Dispatcher) ask(ctx context.Context, br *breaker) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	asked := time.Now()
	err := d.publisher.Ready(ctx, br.topic)
	if err == nil {
		br.ok(asked)
	}
	return err
}

// trialResult is what became of a trial.
type trialResult uint8

const (
	// trialFailed: the row was not sent, or the broker or the topic failed it.
	trialFailed trialResult = iota
	// trialAnswered: the broker reads what it is sent.
	trialAnswered
	// trialNoRow: there is nothing to try. The next row that comes will tell.
	trialNoRow
	// trialDied: the row cannot be sent at all. The next one is tried at once: an outage may have
	// outlasted the time of all that waits, and rows would go on expiring as fast as they died.
	trialDied
)

// trial publishes one row of the topic, preferring rows that have not been sent
// during this outage, and those with a key or without. The error is that of the
// broker or the topic.
func (d *Dispatcher) trial(ctx context.Context, br *breaker, keyed bool) (result trialResult, err error) {
	for result = trialDied; result == trialDied && ctx.Err() == nil; {
		result, err = d.tryRow(ctx, br, keyed)
	}
	return result, err
}

func (d *Dispatcher) tryRow(ctx context.Context, br *breaker, keyed bool) (trialResult, error) {
	if len(br.types) == 0 {
		return trialNoRow, nil // no claim can single out this topic's rows
	}
	for _, after := range []int64{br.trialAfter.Load(), 0} {
		started := time.Now()
		rows, err := d.claimTrial(ctx, br, after, keyed)
		if errors.Is(err, context.DeadlineExceeded) {
			continue // the walk to the first row takes too long; sweeps will get there
		}
		if err != nil {
			return trialFailed, nil // already observed, and not the topic's fault
		}
		if len(rows) == 0 {
			continue
		}
		br.trialAfter.Store(rows[0].Seq)
		split := d.splitByTopic
		if rows[0].OrderingKey != "" {
			split = d.splitByKey
		}
		groups := split(rows)
		if ctx.Err() != nil {
			d.start(ctx, started, groups)
			return trialFailed, nil
		}
		g := groups[0]
		d.begin(g, started)
		switch err := d.send(d.abandon, g); {
		case err != nil || len(g.aside) > 0:
			return trialFailed, err // a row that is left to others has tried nothing
		case len(g.died) > 0:
			return trialDied, nil
		}
		return trialAnswered, nil
	}
	return trialNoRow, nil
}

// claimTrial leases one row of the topic: one that needs no order or the head of
// a key, whichever is preferred, or else the other.
func (d *Dispatcher) claimTrial(ctx context.Context, br *breaker, after int64, keyed bool) ([]Claimed, error) {
	got, err := d.inFlight.reserve(ctx, 1)
	if err != nil {
		return nil, err
	}
	p := ClaimParams{
		AfterSeq: after, Limit: 1, MaxBytes: got.bytes, MaxRowBytes: d.maxRowBytes(), Lease: d.cfg.Lease,
		Only: br.types, Paused: d.paused(), Sweep: after == 0, Ordered: keyed, Window: windowRows,
	}
	claim, err := d.claim(p)
	if err == nil && len(claim.Rows) == 0 {
		p.Ordered = !keyed
		claim, err = d.claim(p)
	}
	d.inFlight.adjust(got, claim.Rows)
	return claim.Rows, err
}

func (d *Dispatcher) change(br *breaker, state TopicState, err error) {
	before := br.snapshot()
	after := br.move(state, time.Now(), err)
	if before.State != after.State || before.Code != after.Code {
		d.observe.TopicChanged(after)
	}
}
