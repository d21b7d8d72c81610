package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
)

// sendRun publishes a run: the rows of one ordering key, request after request,
// each after the acknowledgement of the one before. The first row that is not
// acknowledged ends it, and what follows is given back, uncharged. Its verdicts are
// one settlement; losing any part of it is safe, because a row that was not marked
// published is still the one whose turn it is.
//
// The error is why the broker has accepted nothing, as that of send.
func (d *Dispatcher) sendRun(abandon context.Context, g *group) error {
	var v Verdicts
	var err error
	rest := g.rows
	for ended := false; len(rest) > 0 && !ended && d.running.Err() == nil; {
		part := d.nextRequest(rest)
		if g.died, g.aside = part.died, part.aside; len(g.aside) > 0 {
			v.add(d.leaveAside(part))
			rest = rest[1:]
			break
		} else if len(g.died) > 0 {
			attempts := deadAttempts(part)
			d.totals.count(attempts)
			d.observe.Published("", 0, attempts)
			v.Dead, rest = g.died, rest[1:]
			break
		}
		part.claimed = g.claimed
		var n int
		n, ended, err = d.sendPart(abandon, part, &v)
		rest = rest[n:]
	}
	v.Released = append(v.Released, column(rest, func(r *Claimed) Key { return r.Key })...)
	d.settleGroup(g, v)
	return err
}

// nextRequest makes messages of the first rows, as many as go to one topic. A row
// that cannot be sent is judged at its turn: when it is the first.
func (d *Dispatcher) nextRequest(rest []*Claimed) (part *group) {
	for i, row := range rest {
		topic, msg, bad := d.fit(row)
		alone := d.runningOut(row)
		switch {
		case bad != nil && i == 0:
			if aside := d.notOurs(row, bad, d.mayJudge()); aside != nil {
				return &group{rows: rest[:1], aside: []error{aside}}
			}
			return &group{rows: rest[:1], died: []Dead{deadLetter(row, topic, bad.reason, bad, false)}}
		case i == 0:
			part = &group{topic: topic}
		case bad != nil, alone, topic != part.topic:
			return part
		}
		part.rows, part.msgs = append(part.rows, row), append(part.msgs, msg)
		if alone {
			break
		}
	}
	return part
}

// sendPart publishes rows of one key and topic. It returns how many of them are
// dealt with: those that were acknowledged and, where it has a verdict or keeps its
// lease, the first that was not, which ends the run.
func (d *Dispatcher) sendPart(abandon context.Context, g *group, v *Verdicts) (n int, ended bool, err error) {
	br := d.breakers.at(g.topic)
	if err := d.askFirst(abandon, br, &group{topic: g.topic, rows: g.rows[:1]}); err != nil {
		if abandon.Err() != nil {
			return 0, true, err
		}
		v.add(d.heldBack(&group{rows: g.rows[:1]}, err))
		return 1, true, err
	}
	generation, started := br.begin(), time.Now()
	if started.Sub(g.claimed) > d.cfg.sendBy() {
		d.observe.Trouble("send", errTooLate)
		return 0, true, errTooLate
	}
	failpoint.Hit(failpoint.Sending)
	ctx, cancel := context.WithTimeout(abandon, d.cfg.PublishTimeout)
	results := d.publisher.Publish(ctx, g.topic, g.msgs)
	cancel()
	failpoint.Hit(failpoint.Acknowledged)
	failed := slices.IndexFunc(results, func(r Result) bool { return r.Err != nil })
	if failed >= 0 {
		// What follows was not sent, or not for certain stored. It waits.
		results = results[:failed+1]
	}
	tried := &group{topic: g.topic, rows: g.rows[:len(results)]}
	if abandon.Err() != nil {
		return tried.left(results, v), true, abandon.Err()
	}
	verdicts, err := d.conclude(br, generation, started, tried, results)
	v.add(verdicts)
	return len(results), failed >= 0, err
}

// left is the end of a run that the shutdown has cut off. A row that was sent and
// not answered keeps its lease: the broker may still store it.
func (g *group) left(results []Result, v *Verdicts) (n int) {
	for i, r := range results {
		if errors.Is(r.Err, ErrUnsent) {
			break
		}
		if r.Err == nil {
			v.Published = append(v.Published, Published{g.rows[i].Key, r.MessageID})
		}
		n++
	}
	return n
}
