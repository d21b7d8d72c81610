package model

import (
	"cmp"
	"slices"
	"strings"
)

// What an event carries.
const (
	good   = "good"
	poison = "poison" // the broker may refuse it
	bad    = "bad"    // does not fit its type
)

// eventType is what the catalogue of a namespace says of a type.
type eventType struct {
	name, topic string
	was         []string
}

// called reports whether events of the type may be stored under a name.
func (t *eventType) called(name string) bool { return t.name == name || slices.Contains(t.was, name) }

func namespaces() []string { return []string{"eu", "us"} }

// firstTypes are the types of a namespace at the beginning. One name has another topic in each.
func firstTypes(namespace string) []*eventType {
	if namespace == "eu" {
		return []*eventType{{name: "a", topic: "t0"}, {name: "b", topic: "t1"}}
	}
	return []*eventType{{name: "a", topic: "t1"}, {name: "b", topic: "t1"}}
}

// The states of an event. One that was cleaned up is forgotten.
const (
	waiting   = "pending"
	published = "published"
	dead      = "dead"
)

// event is one that was emitted and is still there.
type event struct {
	name, id                                     string // what people and the database call it
	namespace, stored, tenant, dedupe, key, kind string
	// place is its place in its ordering key.
	place    float64
	state    string
	attempts int
	backsOff bool
	passed   bool // what follows in its key does not wait for it
	old      bool // published before the last month
}

// The states of a dead letter.
const (
	open      = "open"
	replayed  = "replayed"
	discarded = "discarded"
)

// letter is a dead letter.
type letter struct {
	name, id      string
	event         *event // still known here when its row is gone
	reason, state string
	corrected     bool // another event took its event's place
	last          *run // that changed it last
	old           bool
}

// run is a change that an operator made, and that may be undone.
type run struct {
	name, id, action string
	letters          []*letter
	pause            pause
	// Of a pause, who had set it before and who has now: the run itself, or the one whose pause is back.
	before, after *run
	old           bool
}

// pause is of a topic, a type, a tenant or a namespace.
type pause struct{ kind, value string }

// model is what should be.
type model struct {
	types   map[string][]*eventType
	topics  map[string]string // the broker's, where they are not up
	refuses bool              // the broker rejects poison
	events  []*event
	letters []*letter
	runs    []*run
	pauses  map[pause]*run // with the run that set each
	last    map[pause]*run // that paused or resumed it last
	// How many events, letters and runs there ever were.
	made, died, changes int
}

func newModel() *model {
	m := &model{types: map[string][]*eventType{}, topics: map[string]string{}, refuses: true, pauses: map[pause]*run{}, last: map[pause]*run{}}
	for _, namespace := range namespaces() {
		m.types[namespace] = firstTypes(namespace)
	}
	return m
}

// typeOf is the type of an event, nil where the catalogue has none.
func (m *model) typeOf(namespace, stored string) *eventType {
	for _, t := range m.types[namespace] {
		if t.called(stored) {
			return t
		}
	}
	return nil
}

// orderedBy reports whether events of a type have a place in the order of an aggregate on its topic, which a move would break.
func (m *model) orderedBy(t *eventType, namespace string) bool {
	return slices.ContainsFunc(m.events, func(e *event) bool {
		return m.typeOf(e.namespace, e.stored) == t && strings.HasPrefix(e.key, namespace+"/"+t.topic+"/") && e.state != published && !e.passed
	})
}

// paused reports whether an operator holds an event back.
func (m *model) paused(e *event) bool {
	t := m.typeOf(e.namespace, e.stored)
	for p := range m.pauses {
		switch {
		case p.kind == "namespace" && p.value == e.namespace,
			p.kind == "tenant" && p.value == e.tenant,
			p.kind == "type" && t != nil && t.called(p.value),
			p.kind == "topic" && t != nil && t.topic == p.value:
			return true
		}
	}
	return false
}

// duplicate is the event that a producer repeats by its dedupe key.
func (m *model) duplicate(e emission) *event {
	for _, there := range m.events {
		if e.dedupe != "" && there.namespace == e.namespace && there.dedupe == e.dedupe &&
			m.typeOf(e.namespace, there.stored) == m.typeOf(e.namespace, e.eventType) {
			return there
		}
	}
	return nil
}

// fate is what a publication makes of an event.
type fate struct {
	// publish is the topic to which one message goes.
	publish string
	// die is the reason of its death.
	die string
	// maybe: it may as well stay.
	maybe bool
	// try is the topic that takes nothing: it stays, and may back off. cost is how many attempts that may cost it, anyOffer
	// one for each time that it was offered.
	try  string
	cost int
}

// alone is the fate of an event for which no other has to be waited.
func (m *model) alone(e *event) fate {
	if e.backsOff || m.paused(e) {
		return fate{}
	}
	t := m.typeOf(e.namespace, e.stored)
	if t == nil {
		return fate{die: "unknown_event_type"}
	}
	state := cmp.Or(m.topics[t.topic], up)
	switch {
	case e.kind == bad:
		return fate{die: "invalid_payload", maybe: state != up}
	case state == away && e.attempts == 0:
		return fate{try: t.topic, cost: 1}
	case state == deaf:
		return fate{try: t.topic, cost: anyOffer} // once, and as the one on trial after each question
	case state != up:
		// Who knows that the broker is away offers it nothing that has failed before.
		return fate{try: t.topic}
	case e.kind == poison && m.refuses:
		return fate{die: "rejected_by_broker"}
	default:
		return fate{publish: t.topic}
	}
}

const anyOffer = -1

// fates is what a publication makes of all that wait, in one namespace or all. Of an ordering key each waits for those
// before it.
func (m *model) fates(namespace string) map[*event]fate {
	fates, keys := map[*event]fate{}, map[string][]*event{}
	for _, e := range m.events {
		switch {
		case namespace != "" && e.namespace != namespace:
		case e.key == "" && e.state == waiting:
			fates[e] = m.alone(e)
		case e.key != "" && e.state != published && !e.passed:
			keys[e.key] = append(keys[e.key], e)
		}
	}
	for _, key := range keys {
		slices.SortStableFunc(key, byPlace)
		for _, e := range key {
			if e.state == dead {
				break
			}
			fates[e] = m.alone(e)
			if fates[e].publish == "" {
				break
			}
		}
	}
	return fates
}

func byPlace(a, b *event) int { return cmp.Compare(a.place, b.place) }

// revive sends an event on its way again.
func (e *event) revive() {
	e.state, e.attempts, e.backsOff, e.passed, e.old = waiting, 0, false, false, false
}

// openLetters are the letters of an event that wait for a decision.
func (m *model) openLetters(e *event) (list []*letter) {
	for _, l := range m.letters {
		if l.event == e && l.state == open {
			list = append(list, l)
		}
	}
	return list
}

func (l *letter) change(r *run, state string) {
	l.state, l.last, l.old = state, r, false
	r.letters = append(r.letters, l)
}

// replay sends the events of open letters again.
func (m *model) replay(r *run, letters []*letter) {
	for _, l := range letters {
		if l.state != open || l.event.state != dead {
			continue
		}
		for _, o := range m.openLetters(l.event) {
			o.change(r, replayed)
		}
		l.event.revive()
	}
}

// discard closes open letters. An event without any lets its key go on.
func (m *model) discard(r *run, letters []*letter) {
	for _, l := range letters {
		if l.state != open {
			continue
		}
		l.change(r, discarded)
		l.event.passed = l.event.key != "" && l.event.state == dead && len(m.openLetters(l.event)) == 0
	}
}

// restore opens discarded letters. What was corrected stays corrected.
func (m *model) restore(r *run, letters []*letter) {
	for _, l := range letters {
		if l.state == discarded && !l.corrected && l.event.state == dead {
			l.change(r, open)
			l.event.passed = false
		}
	}
}

// undo takes back what a run has changed and nobody has changed since.
func (m *model) undo(r, undone *run) {
	var mine []*letter
	for _, l := range undone.letters {
		if l.last == undone && slices.Contains(m.letters, l) {
			mine = append(mine, l)
		}
	}
	switch undone.action {
	case "dlq.discard":
		m.restore(r, mine)
	case "dlq.restore":
		m.discard(r, mine)
	case "pause":
		if now := m.pauses[undone.pause]; now != nil && now == undone.after {
			m.setPause(r, undone.pause, undone.before)
		}
	case "resume":
		if m.last[undone.pause] == undone {
			m.setPause(r, undone.pause, undone.before)
		}
	}
}

// setPause makes a pause one that a run has set, or ends it.
func (m *model) setPause(r *run, p pause, by *run) {
	r.action, r.pause, r.before, r.after = "pause", p, m.pauses[p], by
	m.pauses[p], m.last[p] = by, r
	if by == nil {
		r.action = "resume"
		delete(m.pauses, p)
	}
}

// correct puts a new event in the place of a dead one, under the name that its type has now.
func (m *model) correct(r *run, l *letter, kind string) *event {
	if l.state != open || l.event.state != dead {
		return nil
	}
	m.made++
	e := &event{
		namespace: l.event.namespace, stored: m.typeOf(l.event.namespace, l.event.stored).name, tenant: l.event.tenant, key: l.event.key,
		kind: kind, state: waiting, place: float64(m.made),
	}
	if e.key != "" {
		e.place = l.event.place
	}
	for _, o := range m.openLetters(l.event) {
		o.change(r, discarded)
		o.corrected = true
	}
	l.event.passed = l.event.key != ""
	m.events = append(m.events, e)
	return e
}

// clean forgets what is old of some kinds: published events, handled letters with their dead events, runs.
func (m *model) clean(kinds string) (removed int) {
	before := len(m.events)
	if strings.Contains(kinds, "events") {
		m.events = slices.DeleteFunc(m.events, func(e *event) bool { return e.state == published && e.old })
		removed += before - len(m.events)
	}
	if strings.Contains(kinds, "letters") {
		gone := func(l *letter) bool { return l.state != open && l.old }
		for _, l := range m.letters {
			if gone(l) && l.state == discarded && l.event.state == dead && (l.event.key == "" || l.event.passed) {
				m.events = slices.DeleteFunc(m.events, func(e *event) bool { return e == l.event })
			}
		}
		before := len(m.letters)
		m.letters = slices.DeleteFunc(m.letters, gone)
		removed += before - len(m.letters)
	}
	if strings.Contains(kinds, "audit") {
		before := len(m.runs)
		m.runs = slices.DeleteFunc(m.runs, func(r *run) bool { return r.old })
		removed += before - len(m.runs)
	}
	return removed
}

// month lets a month go by.
func (m *model) month() {
	for _, e := range m.events {
		e.old, e.backsOff = e.state == published, false
	}
	for _, l := range m.letters {
		l.old = l.state != open
	}
	for _, r := range m.runs {
		r.old = true
	}
}
