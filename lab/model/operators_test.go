package model

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// operate runs a command of the operator. What it refuses is no error; that it fails is.
func (g *game) operate(args ...string) (said string, err error) { return g.operateAs(g.actor, args) }

func (g *game) operateAs(actor string, args []string) (said string, err error) {
	code, said := g.w.command(actor, append(slices.Clone(args), "--yes")...)
	if code == 1 || code > 8 {
		return said, fmt.Errorf("exit %d: %s", code, said)
	}
	return said, nil
}

// together has both operators run a command at the same time.
func (g *game) together(args []string) error {
	g.say("  and so does the other one, at the same time")
	g.both = true
	var all errgroup.Group
	for _, actor := range operators() {
		all.Go(func() error { _, err := g.operateAs(actor, args); return err })
	}
	return all.Wait()
}

// changed notes that the step has changed something.
func (g *game) changed(action string, affected int) {
	if affected == 0 {
		return
	}
	g.run.action, g.affected = action, affected
	g.m.runs = append(g.m.runs, g.run)
}

// letter draws one, more often than not in the state that the action is for.
func (g *game) letter(n numbers, state string) *letter {
	fitting := slices.DeleteFunc(slices.Clone(g.m.letters), func(l *letter) bool { return l.state != state })
	if len(fitting) == 0 || n[4]%4 == 0 {
		fitting = g.m.letters
	}
	return pick(fitting, n[2])
}

// chosen draws letters, as ids or as a filter, that an action on letters of a state is done to.
func (g *game) chosen(n numbers, state string) (letters []*letter, args []string) {
	filter := func(fits func(*letter) bool) (found []*letter) {
		for _, l := range g.m.letters {
			if l.state == state && fits(l) {
				found = append(found, l)
			}
		}
		return found
	}
	one := g.letter(n, state)
	switch n[1] % 6 {
	case 0:
		return filter(func(l *letter) bool { return l.event.namespace == one.event.namespace }), []string{"--namespace", one.event.namespace}
	case 1:
		return filter(func(l *letter) bool { return l.reason == one.reason }), []string{"--reason", one.reason}
	case 2:
		if one.event.tenant != "" {
			return filter(func(l *letter) bool { return l.event.tenant == one.event.tenant }), []string{"--tenant", one.event.tenant}
		}
	case 3: // the event's newest letter in that state, or its newest at all
		for _, l := range g.m.letters {
			if l.event == one.event && (one.state != state || l.state == state) {
				one = l
			}
		}
		return []*letter{one}, []string{one.event.id}
	}
	return []*letter{one}, []string{one.id}
}

func (g *game) letters(verb string) func(context.Context, numbers) error {
	return func(_ context.Context, n numbers) error {
		if len(g.m.letters) == 0 {
			return nil
		}
		state, do := open, g.m.replay
		switch verb {
		case "discard":
			do = g.m.discard
		case "restore":
			state, do = discarded, g.m.restore
		}
		letters, args := g.chosen(n, state)
		g.say("%s: dlq %s %s", g.actor, verb, g.named(args))
		args = append([]string{"dlq", verb}, args...)
		if verb == "replay" {
			args = append(args, "--force")
		}
		act := func(args []string) error { _, err := g.operate(args...); return err }
		if n[5] == 0 {
			act = g.together
		}
		if err := act(args); err != nil {
			return err
		}
		do(g.run, letters)
		g.changed("dlq."+verb, len(g.run.letters))
		return nil
	}
}

// named is arguments with the names that the trace has for ids.
func (g *game) named(args []string) string {
	text := strings.Join(args, " ")
	for _, l := range g.m.letters {
		text = strings.ReplaceAll(strings.ReplaceAll(text, l.id, l.name), l.event.id, l.event.name)
	}
	for _, e := range g.m.events {
		text = strings.ReplaceAll(text, e.id, e.name)
	}
	return text
}

func (g *game) edit(_ context.Context, n numbers) error {
	if len(g.m.letters) == 0 {
		return nil
	}
	l, kind := g.letter(n, open), pick([]string{good, good, poison}, n[3])
	if g.m.typeOf(l.event.namespace, l.event.stored) == nil {
		return nil // there is no such type to correct it by
	}
	g.say("%s: dlq edit %s, which makes it %s", g.actor, l.name, kind)
	g.edits++ // a payload that is left as it was changes nothing
	data := map[string]string{good: `{"n": %d}`, poison: `{"n": %d, "poison": true}`}[kind]
	said, err := g.operate("dlq", "edit", l.id, "--data", fmt.Sprintf(data, 1+g.edits))
	if err != nil {
		return err
	}
	e := g.m.correct(g.run, l, kind)
	if e == nil {
		return nil
	}
	e.name, e.id = fmt.Sprint("e", g.m.made), "unknown: "+said
	g.changed("dlq.edit", 1)
	return nil
}

func (g *game) undo(_ context.Context, n numbers) error {
	if len(g.m.runs) == 0 {
		return nil
	}
	undone := g.m.runs[len(g.m.runs)-1-n[1]%len(g.m.runs)]
	g.say("%s: audit undo %s, the %s", g.actor, undone.name, undone.action)
	if _, err := g.operate("audit", "undo", undone.id); err != nil {
		return err
	}
	g.m.undo(g.run, undone)
	switch undone.action {
	case "dlq.discard":
		g.changed("dlq.restore", len(g.run.letters))
	case "dlq.restore":
		g.changed("dlq.discard", len(g.run.letters))
	default:
		if g.run.action != "" {
			g.changed(g.run.action, 1)
		}
	}
	return nil
}

func (g *game) pause(_ context.Context, n numbers) error {
	t := pick(g.m.types[pick(namespaces(), n[2])], n[3])
	p := pick([]pause{{"topic", t.topic}, {"topic", t.topic}, {"type", t.name}, {"type", t.name}, {"namespace", pick(namespaces(), n[2])}, {"tenant", pick(tenants(), 2+n[2]%2)}}, n[1])
	g.say("%s: pause --%s %s", g.actor, p.kind, p.value)
	if _, err := g.operate("pause", "--"+p.kind, p.value); err != nil {
		return err
	}
	g.m.setPause(g.run, p, g.run)
	g.changed("pause", 1)
	return nil
}

func (g *game) resume(_ context.Context, n numbers) error {
	var list []string
	for p := range g.m.pauses {
		list = append(list, p.kind+" "+p.value)
	}
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	kind, value, _ := strings.Cut(pick(list, n[1]), " ")
	g.say("%s: resume --%s %s", g.actor, kind, value)
	if _, err := g.operate("resume", "--"+kind, value); err != nil {
		return err
	}
	g.m.setPause(g.run, pause{kind, value}, nil)
	g.changed("resume", 1)
	return nil
}

// some draws events: one, or those of a namespace.
func (g *game) some(n numbers) []*event {
	if n[1]%2 == 0 {
		return []*event{pick(g.m.events, n[2])}
	}
	return slices.DeleteFunc(slices.Clone(g.m.events), func(e *event) bool { return e.namespace != pick(namespaces(), n[2]) })
}

func (g *game) republish(_ context.Context, n numbers) error {
	if len(g.m.events) == 0 {
		return nil
	}
	events, args := g.some(n), []string{"--namespace", pick(namespaces(), n[2])}
	if n[1]%2 == 0 {
		args = []string{events[0].id}
	}
	g.say("%s: event republish %s", g.actor, g.named(args))
	if _, err := g.operate(append([]string{"event", "republish"}, args...)...); err != nil {
		return err
	}
	affected := 0
	for _, e := range events {
		if e.state == published {
			e.revive()
			affected++
		}
	}
	g.changed("event.republish", affected)
	return nil
}

func (g *game) retry(_ context.Context, n numbers) error {
	if len(g.m.events) == 0 {
		return nil
	}
	events := g.some(n)
	if len(events) == 0 {
		return nil
	}
	args, affected := []string{"event", "retry"}, 0
	for _, e := range events {
		args = append(args, e.id)
		if e.state == waiting && e.backsOff {
			e.backsOff = false
			affected++
		}
	}
	g.say("%s: %s", g.actor, g.named(args))
	if _, err := g.operate(args...); err != nil {
		return err
	}
	g.changed("event.retry", affected)
	return nil
}

// cleanup removes what is older than a month, which more often than not has just gone by.
func (g *game) cleanup(ctx context.Context, n numbers) error {
	if n[2]%3 > 0 {
		if err := g.month(ctx, n); err != nil {
			return err
		}
	}
	kinds := pick([]string{"events", "letters", "audit", "audit", "events letters audit"}, n[1])
	args := []string{"cleanup"}
	for _, kind := range strings.Fields(kinds) {
		args = append(args, map[string]string{"events": "--older-than=30d", "letters": "--dlq-older-than=30d", "audit": "--audit-older-than=30d"}[kind])
	}
	g.say("%s: %s", g.actor, strings.Join(args, " "))
	if _, err := g.operate(args...); err != nil {
		return err
	}
	g.changed("cleanup", g.m.clean(kinds))
	return nil
}

func (g *game) month(ctx context.Context, _ numbers) error {
	g.say("a month goes by")
	g.m.month()
	return g.w.month(ctx)
}

// apply renames a type, or moves it to another topic.
func (g *game) apply(_ context.Context, n numbers) error {
	namespace := pick(namespaces(), n[1])
	t := pick(g.m.types[namespace], n[2])
	if n[3]%2 == 0 {
		name := fmt.Sprintf("%s%d", t.name[:1], 1+len(t.was))
		g.say("%s: registry apply, type %s/%s is now %s", g.actor, namespace, t.name, name)
		t.was, t.name = append(t.was, t.name), name
	} else {
		topic := pick([]string{"t0", "t1", "t2"}, n[4])
		if topic == t.topic {
			return nil
		}
		g.say("%s: registry apply, type %s/%s moves to %s", g.actor, namespace, t.name, topic)
		if was := t.topic; g.m.orderedBy(t, namespace) {
			t.topic = topic
			code, _ := g.w.apply(g.actor, namespace, g.m.types[namespace])
			t.topic = was
			if code != 4 {
				return fmt.Errorf("exit %d, although events wait in the order of an aggregate on %s", code, was)
			}
			return nil
		}
		t.topic = topic
	}
	if code, said := g.w.apply(g.actor, namespace, g.m.types[namespace]); code != 0 {
		return fmt.Errorf("exit %d: %s", code, said)
	}
	g.changed("registry.apply", -1) // as many as the program counts
	return nil
}
