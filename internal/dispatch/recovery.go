package dispatch

import (
	"context"
	"time"
)

const (
	// probesPerSecond bounds readiness requests of all topics together.
	probesPerSecond = 4
	probeMin        = 250 * time.Millisecond
	probeMax        = 5 * time.Second
	probeTimeout    = 5 * time.Second

	// readyFresh is how recently a topic must have accepted something to be
	// called ready without asking.
	readyFresh = 5 * time.Second
)

// tripped announces a topic that has just failed and starts its recovery.
func (d *Dispatcher) tripped(br *breaker, failed bool) {
	if !failed {
		return
	}
	d.batchSize.shrink()
	d.observe.TopicChanged(br.snapshot())
	d.recoveries.begin()
	go func() {
		defer d.recoveries.end()
		d.recoverTopic(d.running, br)
	}()
}

// recoverTopic brings a topic back: it asks the broker, with growing pauses,
// until it answers, then puts one row on trial, and calls the topic healthy when
// that row is accepted. The first question is asked at once, so that a single
// failed request costs a healthy topic a few milliseconds.
func (d *Dispatcher) recoverTopic(ctx context.Context, br *breaker) {
	pause := Backoff{Base: probeMin, Max: probeMax}
	for try := 1; ; try++ {
		err := d.ask(ctx, br)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			d.change(br, TopicRecovering, nil)
			var tried bool
			if tried, err = d.trial(ctx, br); tried && err == nil {
				d.change(br, TopicHealthy, nil)
				d.cursor.rewind(time.Now()) // its rows were passed over
				return
			}
		}
		if err != nil {
			d.change(br, stateFor(err), err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.Delay(try, d.cfg.Random())):
		}
	}
}

// ask sends one readiness request, within the budget all topics share.
func (d *Dispatcher) ask(ctx context.Context, br *breaker) error {
	if err := d.probes.Wait(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	br.probed()
	asked := time.Now()
	err := d.publisher.Ready(ctx, br.topic)
	if err == nil {
		br.ok(asked)
	}
	return err
}

// trial publishes one row of the topic, preferring rows that have not lost an
// attempt to this outage, and returns why that failed. No row at all counts as
// tried: the next one that comes will tell. When the database does not answer
// nothing was tried.
func (d *Dispatcher) trial(ctx context.Context, br *breaker) (tried bool, _ error) {
	if len(br.types) == 0 {
		return true, nil // no claim can single out this topic's rows
	}
	for _, after := range []int64{br.trialStart(), 0} {
		started := time.Now()
		rows, err := d.claimTrial(ctx, br, after)
		if err != nil {
			return false, nil // already observed, and not the topic's fault
		}
		if len(rows) == 0 {
			continue
		}
		br.tried(rows[0].Seq)
		if ctx.Err() != nil {
			d.launch(ctx, started, rows)
			return false, nil
		}
		g := split(d.catalogue, d.cfg.MaxAttempts, rows)[0]
		g.claimed = started
		d.inFlight.start(g)
		d.groups.begin()
		return true, d.send(d.abandon, g)
	}
	return true, nil
}

func (d *Dispatcher) claimTrial(ctx context.Context, br *breaker, after int64) ([]Claimed, error) {
	got, err := d.inFlight.reserve(ctx, 1)
	if err != nil {
		return nil, err
	}
	rows, err := d.claim(ClaimParams{
		AfterSeq: after, Limit: 1, MaxBytes: got.bytes, Lease: d.cfg.Lease, Only: br.types,
	}, after == 0)
	d.inFlight.adjust(got, rows)
	return rows, err
}

func (d *Dispatcher) change(br *breaker, state TopicState, err error) {
	before := br.snapshot()
	after := br.move(state, time.Now(), err)
	if before.State != after.State || before.Code != after.Code {
		d.observe.TopicChanged(after)
	}
}
