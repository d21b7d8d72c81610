package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// group is the rows of one claim that go to one topic: the unit that is
// published and settled together, so that a slow topic holds up only itself.
type group struct {
	topic string
	rows  []*Claimed
	msgs  []Message
	bytes int64
	// claimed is when the claim was sent, by this machine's clock: the lease
	// ends no earlier than that plus its length.
	claimed time.Time
	// died are the rows that are not offered to the broker at all.
	died []Dead
	// aside is why each row is left to a publisher that may judge it.
	aside []error
	// key is the ordering key of a run: its rows are sent in order, and its topic is
	// that of the first.
	key string
}

// split sorts claimed rows into groups by topic. Rows that cannot be sent form
// a group of their own, under no topic. Each row that is running out of attempts
// is a group too: where a broker fails whole requests because of one message, no
// other row dies of it.
func (d *Dispatcher) split(rows []Claimed) []*group {
	byTopic := map[string]*group{}
	var groups []*group
	at := func(topic string) *group {
		g := byTopic[topic]
		if g == nil {
			g = &group{topic: topic}
			if len(byTopic) == 0 { // most claims have one topic
				g.rows, g.msgs = make([]*Claimed, 0, len(rows)), make([]Message, 0, len(rows))
			}
			byTopic[topic] = g
			groups = append(groups, g)
		}
		return g
	}
	left := &group{}
	mayJudge := d.mayJudge()
	for i := range rows {
		row := &rows[i]
		topic, msg, bad := d.fit(row)
		var g *group
		switch aside := d.notOurs(row, bad, mayJudge); {
		case aside != nil:
			if g = left; len(g.rows) == 0 {
				groups = append(groups, g)
			}
			g.aside = append(g.aside, aside)
		case bad != nil:
			g = at("")
			g.died = append(g.died, deadLetter(row, topic, bad.reason, bad, false))
		case d.runningOut(row):
			g = &group{topic: topic, msgs: []Message{msg}}
			groups = append(groups, g)
		default:
			g = at(topic)
			g.msgs = append(g.msgs, msg)
		}
		g.rows = append(g.rows, row)
		g.bytes += row.held()
	}
	return groups
}

// mayJudge returns what tells, for the rows of one claim, whether they may be dead-lettered for
// what their type says. The database is asked when it is first called. Where it does not
// answer nothing is dead-lettered.
func (d *Dispatcher) mayJudge() func(row *Claimed) bool {
	authority := d.cfg.Authority
	look := sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(d.abandon, claimTimeout)
		defer cancel()
		return authority.Refresh(ctx)
	})
	return func(row *Claimed) bool {
		if err := look(); err != nil {
			d.observe.Trouble("catalogue", err)
			return false
		}
		judges := authority.Judges(row.Namespace, row.EventType)
		if !judges {
			authority.StandDown(row.Namespace, row.EventType)
		}
		return judges
	}
}

// fit makes a message of a row, or returns why the row cannot be sent.
func (d *Dispatcher) fit(row *Claimed) (topic string, msg Message, bad *unfit) {
	topic, msg, bad = prepare(d.catalogue, d.publisher.Limits(), row)
	if limit := attemptLimit(row, d.cfg.MaxAttempts); bad == nil && row.AttemptCount >= limit {
		bad = &unfit{reason: outbox.ReasonMaxAttempts, err: attemptsSpent(row, limit)}
	}
	return topic, msg, bad
}

// notOurs is why a row that breaks a rule of the catalogue is left to another
// publisher, or nil: this one may judge it.
func (d *Dispatcher) notOurs(row *Claimed, bad *unfit, mayJudge func(*Claimed) bool) error {
	if bad == nil || !bad.judged || mayJudge(row) {
		return nil
	}
	return fmt.Errorf("left to a publisher that has the recorded catalogue: %w", bad)
}

// runningOut reports whether half of the row's attempts are used: it travels alone.
func (d *Dispatcher) runningOut(row *Claimed) bool {
	return row.AttemptCount > 0 && 2*row.AttemptCount >= attemptLimit(row, d.cfg.MaxAttempts)
}

// name is unique among the groups of a moment.
func (g *group) name() string { return g.topic + " " + strconv.FormatInt(g.rows[0].Seq, 10) }

// send publishes one group and queues its settlement. It runs to its end
// whatever happens to the dispatcher's context: what was handed to the broker
// is waited for. The error is why the broker has accepted nothing; failures of
// single rows are not errors.
func (d *Dispatcher) send(abandon context.Context, g *group) error {
	if g.aside != nil {
		d.settleGroup(g, d.leaveAside(g))
		return nil
	}
	if g.topic == "" {
		attempts := deadAttempts(g)
		d.totals.count(attempts)
		d.observe.Published("", 0, attempts)
		d.settleGroup(g, Verdicts{Dead: g.died})
		return nil
	}
	br := d.breakers.at(g.topic)
	if err := d.askFirst(abandon, br, g); err != nil {
		if abandon.Err() != nil {
			d.release(g)
			return err
		}
		d.settleGroup(g, d.heldBack(g, err))
		return err
	}
	generation := br.begin()
	started := time.Now()
	if started.Sub(g.claimed) > d.cfg.sendBy() {
		// The claim answered late, or the process stood still. Sending now
		// could outlive the lease, and a second publisher would send it too.
		d.observe.Trouble("send", errTooLate)
		d.release(g)
		return errTooLate
	}
	failpoint.Hit(failpoint.Sending)
	ctx, cancel := context.WithTimeout(abandon, d.cfg.PublishTimeout)
	results := d.publisher.Publish(ctx, g.topic, g.msgs)
	cancel()
	failpoint.Hit(failpoint.Acknowledged)
	if abandon.Err() != nil {
		d.leave(g, results)
		return abandon.Err()
	}
	v, err := d.conclude(br, generation, started, g, results)
	d.settleGroup(g, v)
	return err
}

// conclude turns the results of what was sent then into verdicts, and tells the
// topic's breaker: before the rows are settled, so that no claim can pick them up
// while the topic still looks healthy.
func (d *Dispatcher) conclude(br *breaker, generation int, started time.Time, g *group, results []Result) (Verdicts, error) {
	now := time.Now()
	br.blame(g, results, now)
	j := d.judge(g, results)
	d.totals.count(j.attempts)
	if len(j.verdicts.Published) > 0 {
		br.accepted(started, g, results)
	}
	d.observe.Published(g.topic, now.Sub(started), j.attempts)
	if j.outage != nil {
		d.tripped(br, br.trip(generation, now, j.sentTo, j.outage))
	} else if j.answered {
		br.ok(started)
	}
	if j.outage == nil && !j.answered {
		return j.verdicts, ErrUnsent
	}
	return j.verdicts, j.outage
}

// leave settles what was acknowledged and gives back what was not sent. The rest
// was cut off by the end of the shutdown and may still be stored by the broker:
// its lease stays, or another publisher would send it again meanwhile.
func (d *Dispatcher) leave(g *group, results []Result) {
	var v Verdicts
	for i, r := range results {
		switch {
		case r.Err == nil:
			v.Published = append(v.Published, Published{g.rows[i].Key, r.MessageID})
		case errors.Is(r.Err, ErrUnsent):
			v.Released = append(v.Released, g.rows[i].Key)
		}
	}
	d.settleGroup(g, v)
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
func (d *Dispatcher) askFirst(ctx context.Context, br *breaker, g *group) error {
	if !anyFailedBefore(g.rows) {
		return nil
	}
	entered := time.Now()
	select {
	case br.asking <- struct{}{}:
		defer func() { <-br.asking }()
		d.cfg.turn("ask " + g.name())
	case <-ctx.Done():
		return ctx.Err()
	}
	if !br.quiet(entered, d.cfg.Backoff.Base/2) {
		return nil
	}
	switch s := br.snapshot(); s.State { // another group was told
	case TopicUnreachable:
		return NewFailure(Retryable, s.Code, textError(s.Error))
	case TopicMisconfigured:
		return NewFailure(Misconfigured, s.Code, textError(s.Error))
	}
	generation := br.begin()
	err := d.askInTurn(ctx, br)
	if err != nil && ctx.Err() == nil {
		d.tripped(br, br.trip(generation, time.Now(), 0, err))
	}
	return err
}

// heldBack is the outcome for rows that were not offered: they wait, uncharged.
func (d *Dispatcher) heldBack(g *group, err error) Verdicts {
	var v Verdicts
	text := storedError(err)
	for _, row := range g.rows {
		v.Failed = append(v.Failed, Failed{
			Key: row.Key, Error: text, Free: true,
			Delay: d.cfg.Backoff.Delay(row.AttemptCount, d.cfg.Random()),
		})
	}
	return v
}

func anyFailedBefore(rows []*Claimed) bool {
	for _, row := range rows {
		if row.AttemptCount > 0 {
			return true
		}
	}
	return false
}

// asideFor is how long a row waits that this publisher may not judge: about as long as
// it takes publishers to notice that the database's catalogue has changed.
const asideFor = 5 * time.Second

// leaveAside gives back rows that another publisher has to judge, uncharged.
func (d *Dispatcher) leaveAside(g *group) (v Verdicts) {
	attempts := make([]Attempt, len(g.rows))
	for i, row := range g.rows {
		attempts[i] = Attempt{Row: row, Outcome: OutcomeReleased, Number: row.AttemptCount, Err: g.aside[i], Delay: asideFor}
		v.Failed = append(v.Failed, Failed{Key: row.Key, Error: storedError(g.aside[i]), Free: true, Delay: asideFor})
	}
	d.totals.count(attempts)
	d.observe.Published("", 0, attempts)
	return v
}

func deadAttempts(g *group) []Attempt {
	attempts := make([]Attempt, len(g.rows))
	for i, row := range g.rows {
		dead := g.died[i]
		attempts[i] = Attempt{
			Row: row, Topic: dead.Topic, Outcome: OutcomeDead, Number: row.AttemptCount,
			Reason: dead.Reason, Err: textError(dead.Error),
		}
	}
	return attempts
}

func (d *Dispatcher) settleGroup(g *group, v Verdicts) {
	d.settler.submit(settlement{verdicts: v, done: func() {
		if d.inFlight.end(g) {
			d.ordered.cursor.hurry()
		}
		if g.key != "" {
			d.ordered.settled(g.key)
		}
		d.groups.end()
	}})
}

type textError string

func (e textError) Error() string { return string(e) }
