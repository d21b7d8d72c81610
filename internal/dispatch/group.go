package dispatch

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// group is the rows of one claim that go to one topic, or that have one ordering key: the
// unit that is published and settled together, so that a slow topic holds up only itself.
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
	// key, unless it is empty, is the rows' ordering key: they are sent in order, and topic
	// is that of the first.
	key string
}

// splitByTopic sorts claimed rows into groups by topic. Rows that cannot be sent form
// a group of their own, under no topic. Each row that is running out of attempts
// is a group too: where a broker fails whole requests because of one message, no
// other row dies of it.
func (d *Dispatcher) splitByTopic(rows []Claimed) []*group {
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

// splitByKey sorts claimed rows into groups by their ordering key. Whether a row can be
// sent is decided at its turn.
func (d *Dispatcher) splitByKey(rows []Claimed) (groups []*group) {
	byKey := map[string]*group{}
	for i := range rows {
		row := &rows[i]
		g := byKey[row.OrderingKey]
		if g == nil {
			t, _ := d.catalogue.Describe(row.Namespace, row.EventType)
			g = &group{key: row.OrderingKey, topic: t.Topic}
			byKey[g.key] = g
			groups = append(groups, g)
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
	topic, msg, bad = prepare(d.catalogue, d.publisher.Limits, row)
	if bad != nil {
		return topic, msg, bad
	}
	if limit := d.attemptLimit(row); row.AttemptCount >= limit {
		return topic, msg, attemptsSpent(row, limit)
	}
	return topic, msg, expired(row, d.policy(row))
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
	return row.AttemptCount > 0 && 2*row.AttemptCount >= d.attemptLimit(row)
}

// name is unique among the groups of a moment.
func (g *group) name() string { return g.topic + " " + seqText(g.rows) }

func seqText(rows []*Claimed) string { return strconv.FormatInt(rows[0].Seq, 10) }

func (d *Dispatcher) settleGroup(g *group, v Verdicts) {
	d.settler.submit(settlement{verdicts: v, done: func() {
		if d.inFlight.end(g) {
			d.orderedStream.cursor.sweepSooner()
		}
		if g.key != "" { // what comes next in it waits for no poll
			d.orderedStream.keys.settled(g.key, d.orderedStream.cursor.rationed(time.Now()))
			d.orderedStream.nudge()
		}
		d.groups.add(-1)
	}})
}

// keysOf are the leases of rows.
func keysOf(rows []*Claimed) []Key { return column(rows, func(r *Claimed) Key { return r.Key }) }
