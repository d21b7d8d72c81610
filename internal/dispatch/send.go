package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
)

// send publishes one group and queues its settlement. It runs to its end whatever
// happens to the dispatcher's context: what was handed to the broker is waited for.
// The error is why the broker has accepted nothing; failures of single rows are not
// errors.
//
// The rows of one topic are one request. Those of an ordering key are sent request after
// request, each after the acknowledgement of the one before. The first row that is not
// acknowledged ends that, and what follows is given back, uncharged. Their verdicts are
// one settlement; losing any part of it is safe, because a row that was not marked
// published is still the one whose turn it is.
func (d *Dispatcher) send(abandon context.Context, g *group) (err error) {
	var v Verdicts
	rest := g.rows
	// A shutdown ends a key between two requests.
	for ended := false; len(rest) > 0 && !ended && (g.key == "" || d.running.Err() == nil); {
		request := g
		if g.key != "" {
			request = d.nextRequest(g, rest)
		}
		var n int
		n, ended, err = d.sendRequest(abandon, request, &v)
		rest = rest[n:]
	}
	if len(rest) > 0 && g.key == "" {
		d.LookAgain() // they are behind the hint now
	}
	v.Released = append(v.Released, keysOf(rest)...)
	d.settleGroup(g, v)
	return err
}

// nextRequest makes messages of the first rows of a key, as many as go to one topic. A
// row that cannot be sent is judged at its turn: when it is the first.
func (d *Dispatcher) nextRequest(g *group, rest []*Claimed) *group {
	next := &group{key: g.key, claimed: g.claimed}
	for i, row := range rest {
		topic, msg, bad := d.fit(row)
		alone := d.runningOut(row)
		switch {
		case bad != nil && i == 0:
			next.rows = rest[:1]
			if aside := d.notOurs(row, bad, d.mayJudge()); aside != nil {
				next.aside = []error{aside}
			} else {
				next.died = []Dead{deadLetter(row, topic, bad.reason, bad, false)}
			}
			g.died, g.aside = next.died, next.aside
			return next
		case i == 0:
			next.topic = topic
		case bad != nil, alone, topic != next.topic:
			return next
		}
		next.rows, next.msgs = append(next.rows, row), append(next.msgs, msg)
		if alone {
			break
		}
	}
	return next
}

// sendRequest publishes a group in one request. It adds what became of its first n rows
// to v; the others are to be given back. ended: nothing may be sent after it.
func (d *Dispatcher) sendRequest(abandon context.Context, g *group, v *Verdicts) (
	n int, ended bool, err error,
) {
	if g.aside != nil || g.topic == "" {
		v.add(d.notOffered(g))
		return len(g.rows), true, nil
	}
	br := d.breakers.at(g.topic)
	first := g.rows
	if g.key != "" {
		first = first[:1]
	}
	if err := d.askFirst(abandon, br, first); err != nil {
		if abandon.Err() != nil {
			return 0, true, err
		}
		v.add(d.heldBack(first, err))
		return len(first), true, err
	}
	generation, started := br.begin(), time.Now()
	if started.Sub(g.claimed) > d.cfg.sendBy() {
		// The claim answered late, or the process stood still. Sending now
		// could outlive the lease, and a second publisher would send it too.
		d.observe.Trouble("send", errTooLate)
		return 0, true, errTooLate
	}
	failpoint.Hit(failpoint.Sending)
	ctx, cancel := context.WithTimeout(abandon, d.cfg.PublishTimeout)
	results := d.publisher.Publish(ctx, g.topic, g.msgs)
	cancel()
	failpoint.Hit(failpoint.Acknowledged)
	failed := slices.IndexFunc(results, func(r Result) bool { return r.Err != nil })
	if failed >= 0 && g.key != "" {
		// What follows was not sent, or not for certain stored. It waits.
		results, g.rows, ended = results[:failed+1], g.rows[:failed+1], true
	}
	if abandon.Err() != nil {
		v.add(g.leave(results))
		return len(results), true, abandon.Err()
	}
	verdicts, err := d.conclude(br, generation, started, g, results)
	v.add(verdicts)
	return len(results), ended, err
}

// conclude turns the results of what was sent then into verdicts, and tells the
// topic's breaker: before the rows are settled, so that no claim can pick them up
// while the topic still looks healthy.
func (d *Dispatcher) conclude(
	br *breaker, generation int, started time.Time, g *group, results []Result,
) (Verdicts, error) {
	now := time.Now()
	br.blame(g, results, now)
	j := d.judge(g, results, br.own(g, results))
	if len(j.verdicts.Published) > 0 {
		br.accepted(started, g, results)
	}
	d.report(g.topic, now.Sub(started), j.attempts)
	if j.outage != nil {
		d.tripped(br, br.trip(generation, now, j.sentTo, j.outage), waitOf(j.outage))
	} else if j.answered {
		br.ok(started)
	}
	if j.outage == nil && !j.answered {
		return j.verdicts, ErrUnsent
	}
	return j.verdicts, j.outage
}

// leave is the outcome when the end of the shutdown has cut off a request: what was
// acknowledged is published, what was not sent is given back. The rest may still be
// stored by the broker: its lease stays, or another publisher would send it again
// meanwhile.
func (g *group) leave(results []Result) (v Verdicts) {
	for i, r := range results {
		switch {
		case r.Err == nil:
			v.Published = append(v.Published, Published{g.rows[i].Key, r.MessageID})
		case errors.Is(r.Err, ErrUnsent):
			v.Released = append(v.Released, g.rows[i].Key)
		}
	}
	return v
}

// askFirst keeps rows that have failed before from losing another attempt to
// an outage which this publisher has not noticed yet, because another one
// tried them first: when nothing was accepted since then the broker is asked
// whether it is there. A row waits for half the base at least, so what was
// accepted more recently was sent after the row failed.
//
// One group asks for all that are waiting. Were each of them to ask, a backlog
// of a dozen groups would spend its leases queueing for the few questions a
// second that may be asked.
func (d *Dispatcher) askFirst(ctx context.Context, br *breaker, rows []*Claimed) error {
	if !anyFailedBefore(rows) {
		return nil
	}
	entered := time.Now()
	select {
	case br.asking <- struct{}{}:
		defer func() { <-br.asking }()
		d.cfg.turn("ask " + br.topic + " " + seqText(rows))
	case <-ctx.Done():
		return ctx.Err()
	}
	if !br.quiet(entered, d.cfg.Backoff.Min/2) {
		return nil
	}
	switch s := br.snapshot(); s.State { // another group was told
	case TopicUnreachable:
		return NewFailure(Retryable, s.Code, errors.New(s.Error))
	case TopicMisconfigured:
		return NewFailure(Misconfigured, s.Code, errors.New(s.Error))
	}
	generation := br.begin()
	err := d.askInTurn(ctx, br)
	if err != nil && ctx.Err() == nil {
		d.tripped(br, br.trip(generation, time.Now(), 0, err), waitOf(err))
	}
	return err
}

// heldBack is the outcome for rows that were not offered: they wait, uncharged.
func (d *Dispatcher) heldBack(rows []*Claimed, err error) (v Verdicts) {
	text := storedError(err)
	for _, row := range rows {
		v.Failed = append(v.Failed, Failed{
			Key: row.Key, Error: text, Free: true,
			Delay: d.delay(row, row.AttemptCount),
		})
	}
	return v
}

func anyFailedBefore(rows []*Claimed) bool {
	return slices.ContainsFunc(rows, func(r *Claimed) bool { return r.AttemptCount > 0 })
}

// asideFor is how long a row waits that this publisher may not judge: about as long as
// it takes publishers to notice that the database's catalogue has changed.
const asideFor = 5 * time.Second

// notOffered is the outcome for rows that are not offered to the broker: they are dead, or given
// back, uncharged, to a publisher that may judge them.
func (d *Dispatcher) notOffered(g *group) (v Verdicts) {
	attempts := make([]Attempt, len(g.rows))
	for i, row := range g.rows {
		a := Attempt{Row: row, Number: row.AttemptCount}
		if g.aside != nil {
			a.Outcome, a.Err, a.Delay = OutcomeReleased, g.aside[i], asideFor
			v.Failed = append(v.Failed, Failed{Key: row.Key, Error: storedError(a.Err), Free: true, Delay: asideFor})
		} else {
			dead := g.died[i]
			a.Outcome, a.Topic, a.Reason, a.Err = OutcomeDead, dead.Topic, dead.Reason, errors.New(dead.Error)
			v.Dead = append(v.Dead, dead)
		}
		attempts[i] = a
	}
	d.report("", 0, attempts)
	return v
}

// report counts and tells what became of the rows of one request.
func (d *Dispatcher) report(topic string, took time.Duration, attempts []Attempt) {
	d.totals.count(attempts)
	d.observe.Published(topic, took, attempts)
}

// orderedRequests is how many keys of one topic are sent at the same time. A key
// has one request under way at most, so it takes many keys to keep a broker busy;
// and a topic that does not answer leaves the others their own.
const orderedRequests = 64

// sendQueue are the goroutines that send the keys of a topic, one group after the
// other each. A goroutine for every group would have to grow its stack every time.
type sendQueue struct {
	mu     sync.Mutex
	queue  []func()
	active int
}

// send lets f be called as soon as fewer than orderedRequests are.
func (q *sendQueue) send(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, f)
	if q.active < orderedRequests {
		q.active++
		go q.work()
	}
}

// work ends when nothing is queued, so that nothing is left at the end of Run.
func (q *sendQueue) work() {
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.active--
			q.mu.Unlock()
			return
		}
		f := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		f()
	}
}
