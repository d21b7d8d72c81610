package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/wire"
)

const (
	// aggregates is how many of each type there are.
	aggregates = 40
	// tries is how often a payload is made up before its type is given up.
	tries = 50
)

// Generated returns traffic of any catalogue: payloads are made up from the schemas. skipped are the types whose schema
// says more than can be made up, with what was wrong; it is an error when no type is left.
func Generated(params Params, db DB, emitter *emit.Emitter, types *catalogue.Catalogue, report func(Report)) (traffic *Traffic, skipped map[string]error, err error) {
	g := &generated{random: params.random(), now: params.Now, emitter: emitter, catalogue: types}
	for range aggregates {
		g.ids = append(g.ids, newID(g.random).String())
	}
	skipped = map[string]error{}
	for _, d := range types.Documents() {
		for _, t := range d.Types {
			kind := kindOf{t, d.Namespace}
			if _, err := g.event(kind); err != nil {
				skipped[t.Name] = err
				continue
			}
			g.kinds = append(g.kinds, kind)
		}
	}
	if len(g.kinds) == 0 {
		return nil, skipped, errors.New("make up demo events: there is no type whose schema can be made up")
	}
	return newTraffic(params, db, emitter, report, g), skipped, nil
}

// generated is the source of the events of a catalogue.
type generated struct {
	random    *rand.Rand
	now       func() time.Time
	emitter   *emit.Emitter
	catalogue *catalogue.Catalogue
	kinds     []kindOf
	ids       []string
	played    int
	faults    int
}

// kindOf is an event type in the namespace that its document speaks for.
type kindOf struct {
	catalogue.Type
	namespace string
}

func (k kindOf) in() string {
	if k.namespace == catalogue.AllNamespaces {
		return ""
	}
	return k.namespace
}

// scene shows every type once before chance decides.
func (g *generated) scene() []emit.Event {
	kind := g.kinds[g.played%len(g.kinds)]
	if g.played >= len(g.kinds) {
		kind = g.kinds[g.random.IntN(len(g.kinds))]
	}
	g.played++
	event, err := g.event(kind)
	if err != nil {
		return nil // one out of many; the next is another
	}
	return []emit.Event{event}
}

// event makes up an event that the emitter takes.
func (g *generated) event(k kindOf) (event emit.Event, err error) {
	for range tries {
		var data json.RawMessage
		if data, err = (&sample{random: g.random, now: g.now}).payload(k.Schema.JSON()); err != nil {
			return event, err
		}
		event = emit.Event{Type: k.Name, Namespace: k.in(), Data: data}
		if k.Aggregate != catalogue.None {
			event.AggregateID = g.ids[g.random.IntN(len(g.ids))]
		}
		if err = g.emitter.Validate(event); err == nil {
			return event, nil
		}
	}
	return event, err
}

// fault takes turns, so that a short run shows every kind.
func (g *generated) fault() fault {
	kinds := []func(kindOf) (fault, bool){g.wrongData, g.misspelt, g.wrongData, g.tooLarge}
	for {
		kind := g.kinds[g.random.IntN(len(g.kinds))]
		made, ok := kinds[g.faults%len(kinds)](kind)
		g.faults++
		if ok {
			made.namespace, made.bare, made.occurredAt = kind.in(), kind.Envelope == catalogue.None, g.now()
			return made
		}
	}
}

// like is a good event as a program that writes to the table by itself would have it.
func (g *generated) like(k kindOf) fault {
	event, err := g.event(k)
	data, ok := event.Data.(json.RawMessage)
	if err != nil || !ok {
		data = json.RawMessage("{}")
	}
	f := fault{eventType: k.Name, aggregateType: k.Aggregate, aggregateID: event.AggregateID, data: string(data)}
	if k.Aggregate == catalogue.None {
		f.aggregateType = ""
	}
	return f
}

// wrongData has a payload that the type's schema refuses, where it refuses any.
func (g *generated) wrongData(k kindOf) (fault, bool) {
	f := g.like(k)
	for _, data := range append(spoilt(f.data), `{}`, `[]`, `"text"`) {
		if _, err := g.catalogue.Check(k.in(), k.Name, json.RawMessage(data)); err != nil {
			f.data = data
			return f, true
		}
	}
	return f, false
}

// spoilt lists the object with one member after the other turned into something else.
func spoilt(data string) (all []string) {
	var object map[string]any
	if json.Unmarshal([]byte(data), &object) != nil {
		return nil
	}
	for name, value := range object {
		object[name] = map[string]any{"unexpected": true}
		if text, err := json.Marshal(object); err == nil {
			all = append(all, string(text))
		}
		object[name] = value
	}
	return all
}

// misspelt has a type that no catalogue knows.
func (g *generated) misspelt(k kindOf) (fault, bool) {
	f := g.like(k)
	f.eventType = fmt.Sprintf("%s%s", k.Name, k.Name[len(k.Name)-1:])
	_, known := g.catalogue.Find(k.in(), f.eventType)
	return f, !known
}

// tooLarge has an attribute beyond the broker's limit.
func (g *generated) tooLarge(k kindOf) (fault, bool) {
	f := g.like(k)
	f.headers = map[string]string{"caption": strings.Repeat("very ", wire.PubSubLimits().AttributeValueBytes/5+1) + "long"}
	return f, true
}
