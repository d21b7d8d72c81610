package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// compare looks at the world and says what is not as it should be. What the model leaves open it takes from there.
func (g *game) compare(ctx context.Context) error {
	f, err := g.w.look(ctx)
	if err != nil {
		return err
	}
	var wrong []error
	expect := func(holds bool, format string, args ...any) {
		if !holds {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	g.compareAudit(f, expect)
	g.compareMessages(expect)
	g.adopt(f)
	g.compareEvents(f, expect)
	g.compareLetters(f, expect)
	pauses := []string{}
	for p := range g.m.pauses {
		pauses = append(pauses, p.kind+" "+p.value)
	}
	slices.Sort(pauses)
	expect(slices.Equal(pauses, f.Pauses), "paused is %q, not %q", f.Pauses, pauses)
	return errors.Join(wrong...)
}

type expectation func(holds bool, format string, args ...any)

// compareAudit: each change leaves one row, and what changes nothing leaves none.
func (g *game) compareAudit(f facts, expect expectation) {
	if g.affected == 0 {
		expect(len(f.Audit) == 0, "changed something, says the audit trail: %+v", f.Audit)
		return
	}
	expect(len(f.Audit) == 1, "%d audit rows: %+v", len(f.Audit), f.Audit)
	if len(f.Audit) == 0 {
		return
	}
	row := f.Audit[0]
	g.m.changes++
	g.run.id, g.run.name = row.Run, fmt.Sprint("r", g.m.changes)
	g.say("  that was %s", g.run.name)
	expect(row.Action == g.run.action && (row.Actor == g.actor || g.both), "the audit trail says %s by %s", row.Action, row.Actor)
	expect(row.Affected == g.affected || g.affected < 0, "the audit trail says that %d rows changed, not %d", row.Affected, g.affected)
	if g.run.action == "dlq.edit" && len(row.Events) == 2 { // the dead event and the one that takes its place
		g.m.events[len(g.m.events)-1].id = row.Events[1]
	}
}

// compareMessages: what was to be published is at the broker, once, on its topic, in the order of its key.
func (g *game) compareMessages(expect expectation) {
	byID := map[string]*event{}
	for _, e := range g.m.events {
		byID[e.id] = e
	}
	sent, last := map[*event]int{}, map[string]*event{}
	for _, s := range g.stored {
		e := byID[s.event]
		if e == nil {
			expect(false, "a message of an event that nobody knows: %+v", s)
			continue
		}
		sent[e]++
		expect(g.fates[e].publish == s.topic, "%s was sent to %s, not to %q", e.name, s.topic, g.fates[e].publish)
		expect(s.key == e.key, "%s was sent with the key %q, not %q", e.name, s.key, e.key)
		if before := last[e.key]; e.key != "" && before != nil {
			expect(before.place < e.place, "%s was sent before %s", before.name, e.name)
		}
		last[e.key] = e
	}
	for e, f := range g.fates {
		offered, asked := g.w.broker.offered[e.id], g.w.broker.asked[f.try]
		expect(offered <= 1+asked, "%s was offered %d times to %s, which takes nothing and was asked %d times", e.name, offered, f.try, asked)
		if f.publish != "" {
			expect(sent[e] == 1, "%s was sent %d times", e.name, sent[e])
			e.state, e.old = published, false
		}
	}
}

// adopt takes over what only the world knows: deaths, and what an outage cost.
func (g *game) adopt(f facts) {
	for e, fate := range g.fates {
		there := f.Events[e.id]
		if fate.die != "" && (!fate.maybe || there.Status == dead) {
			e.state = dead
		}
		if fate.try != "" {
			if fate.cost == anyOffer {
				fate.cost = g.w.broker.offered[e.id]
			}
			e.backsOff = there.BacksOff
			e.attempts = min(e.attempts+fate.cost, max(e.attempts, there.Attempts))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.Letters)) { // in the order of their deaths
		l := f.Letters[id]
		if slices.ContainsFunc(g.m.letters, func(known *letter) bool { return known.id == id }) {
			continue
		}
		for e, fate := range g.fates {
			if e.id == l.Event && e.state == dead && len(g.m.openLetters(e)) == 0 {
				g.m.died++
				g.m.letters = append(g.m.letters, &letter{name: fmt.Sprint("d", g.m.died), id: id, event: e, reason: fate.die, state: open})
			}
		}
	}
}

func (g *game) compareEvents(f facts, expect expectation) {
	for _, e := range g.m.events {
		there, found := f.Events[e.id]
		if !found {
			expect(false, "%s (%s) is lost", e.name, e.id)
			continue
		}
		expect(there.Status == e.state, "%s is %s, not %s", e.name, there.Status, e.state)
		expect(there.Namespace == e.namespace && there.Type == e.stored, "%s is a %s/%s", e.name, there.Namespace, there.Type)
		expect(there.Passed == e.passed, "%s is passed: %t", e.name, there.Passed)
		if e.state == waiting {
			expect(there.Attempts == e.attempts, "%s has lost %d attempts, not %d", e.name, there.Attempts, e.attempts)
			expect(there.BacksOff == e.backsOff, "%s backs off: %t", e.name, there.BacksOff)
		}
		delete(f.Events, e.id)
	}
	for id, there := range f.Events {
		expect(false, "an event that should not be there: %s %+v", id, there)
	}
}

func (g *game) compareLetters(f facts, expect expectation) {
	for _, l := range g.m.letters {
		there, found := f.Letters[l.id]
		expect(found, "%s of %s is lost", l.name, l.event.name)
		expect(!found || there.State == l.state, "%s of %s is %s, not %s", l.name, l.event.name, there.State, l.state)
		expect(!found || there.Reason == l.reason, "%s of %s has the reason %s, not %s", l.name, l.event.name, there.Reason, l.reason)
		delete(f.Letters, l.id)
	}
	for id, there := range f.Letters {
		expect(false, "a dead letter that should not be there: %s %+v", id, there)
	}
}
