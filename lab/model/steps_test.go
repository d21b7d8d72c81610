package model

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// step is one thing that somebody does. Its numbers choose among what is there when it is done, so that any part of a
// sequence is a sequence.
type step struct {
	verb string
	n    numbers
}

type numbers [8]int

// verbs are what is drawn from, the usual things more often.
func verbs() []string {
	return strings.Fields(`emit emit emit emit emit publish publish publish topic topic poison replay discard restore restore edit edit
		undo undo pause pause resume republish retry cleanup month apply apply`)
}

// sequence draws the steps of a seed. Half of the verbs are left out, others for each seed: what is left meets more often.
func sequence(seed uint64) []step {
	r := rand.New(rand.NewPCG(seed, 27))
	without := map[string]bool{}
	for _, verb := range slices.Compact(verbs()) {
		without[verb] = r.IntN(2) == 0 && verb != "emit" && verb != "publish"
	}
	all := slices.DeleteFunc(verbs(), func(verb string) bool { return without[verb] })
	steps := make([]step, 10+r.IntN(25))
	for i := range steps {
		steps[i].verb = all[r.IntN(len(all))]
		for j := range steps[i].n {
			steps[i].n[j] = r.IntN(12)
		}
	}
	return steps
}

func pick[T any](list []T, n int) T { return list[n%len(list)] }

// tenants are none, and two.
func tenants() []string {
	return []string{"", "", "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"}
}

func operators() []string { return []string{"ann", "bob"} }

// game is a sequence under way: the world, what should be, and what was done.
type game struct {
	w     *world
	m     *model
	trace []string
	edits int
	// What the step that is under way should leave in the audit trail; affected 0 is nothing.
	run      *run
	affected int
	actor    string
	both     bool // the two operators do it at the same time
	// What a publication stored.
	stored []message
	fates  map[*event]fate
}

func (g *game) say(format string, args ...any) {
	g.trace = append(g.trace, fmt.Sprintf(format, args...))
}

// take does one step. The error is what is not as the model says.
func (g *game) take(ctx context.Context, s step) error {
	g.run, g.affected, g.both, g.fates, g.stored = &run{}, 0, false, nil, nil
	g.actor = pick(operators(), s.n[0])
	do := map[string]func(context.Context, numbers) error{
		"emit": g.emit, "publish": g.publish, "topic": g.topic, "poison": g.poison, "replay": g.letters("replay"), "discard": g.letters("discard"),
		"restore": g.letters("restore"), "edit": g.edit, "undo": g.undo, "pause": g.pause, "resume": g.resume, "republish": g.republish,
		"retry": g.retry, "cleanup": g.cleanup, "month": g.month, "apply": g.apply,
	}[s.verb]
	said := len(g.trace)
	if err := do(ctx, s.n); err != nil {
		return err
	}
	if len(g.trace) == said {
		return nil // there was nothing to do it to
	}
	return g.compare(ctx)
}

func (g *game) emit(ctx context.Context, n numbers) error {
	namespace := pick(namespaces(), n[0])
	t := pick(g.m.types[namespace], n[1])
	e := emission{namespace: namespace, eventType: t.name, aggregate: fmt.Sprint(n[1] % 2), tenant: pick(tenants(), n[3])}
	how, kind := pick([]string{byGo, bySQL, byCLI, byInsert}, n[2]), pick([]string{good, good, good, good, poison, poison, poison, bad}, n[4])
	switch n[5] {
	case 1, 2, 3:
		e.key = fmt.Sprint("k", n[5]%2)
	case 4:
		e.byAggregate = how == byGo || how == byCLI
	}
	if n[6]%3 == 0 && how != byInsert {
		e.dedupe = strings.TrimPrefix(e.tenant+"/same", "/")
	}
	switch {
	case n[7] < 3 && len(t.was) > 0:
		e.eventType = pick(t.was, n[1])
	case n[7] == 11:
		e.eventType = "ghost"
	}
	e.data = map[string]string{good: `{"n": 1}`, poison: `{"n": 1, "poison": true}`, bad: `{"n": "one"}`}[kind]
	known := e.eventType == t.name
	accepted := how == byInsert || known && (kind != bad || how == bySQL)
	id, already, err := g.w.emit(ctx, how, e)
	switch there := g.m.duplicate(e); {
	case !accepted && err == nil:
		g.say("%s emits %s %s/%s", how, kind, namespace, e.eventType)
		return fmt.Errorf("was accepted, as %s", id)
	case !accepted:
		return nil
	case err != nil:
		g.say("%s emits %s %s/%s", how, kind, namespace, e.eventType)
		return err
	case there != nil:
		g.say("%s emits %s/%s, which repeats %s", how, namespace, e.eventType, there.name)
		if !already || id != there.id {
			return fmt.Errorf("was emitted once more, as %s", id)
		}
		return nil
	}
	g.m.made++
	added := &event{
		name: fmt.Sprint("e", g.m.made), id: id, namespace: namespace, stored: e.eventType, tenant: e.tenant, dedupe: e.dedupe, kind: kind, state: waiting, place: float64(g.m.made),
	}
	switch {
	case e.byAggregate:
		added.key = strings.Join([]string{namespace, t.topic, "thing", e.aggregate}, "/")
	case e.key != "":
		added.key = namespace + "/" + e.key
	}
	g.m.events = append(g.m.events, added)
	g.say("%s emits %s %s: %s/%s tenant %.1s key %q dedupe %.6s", how, kind, added.name, namespace, e.eventType, strings.TrimLeft(e.tenant, "0-48"), added.key, e.dedupe)
	return nil
}

func (g *game) publish(ctx context.Context, n numbers) error {
	namespace, backoff := pick([]string{"", "", "", "eu", "us"}, n[2]), pick([]time.Duration{time.Hour, time.Millisecond}, n[1])
	g.fates = g.m.fates(namespace)
	var must []string
	for e, f := range g.fates {
		if f.publish != "" || f.die != "" && !f.maybe {
			must = append(must, e.id)
		}
	}
	g.say("publish %s, backing off for %s", cmp.Or(namespace, "all"), backoff)
	before := len(g.w.broker.stored)
	if err := g.w.publish(ctx, namespace, backoff, must); err != nil {
		return err
	}
	g.stored = g.w.broker.stored[before:]
	return nil
}

func (g *game) topic(_ context.Context, n numbers) error {
	topic, state := pick([]string{"t0", "t1", "t2"}, n[1]), pick([]string{up, up, away, away, deaf, missing}, n[2])
	g.m.topics[topic], g.w.broker.topics[topic] = state, state
	g.say("topic %s is %s", topic, state)
	return nil
}

func (g *game) poison(context.Context, numbers) error {
	g.m.refuses = !g.m.refuses
	g.w.broker.refuses = g.m.refuses
	g.say("the broker takes poison: %t", !g.m.refuses)
	return nil
}
