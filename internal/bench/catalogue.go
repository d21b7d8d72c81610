package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// The criteria of mode catalogue.
const (
	minVariantRate = 0.95 // of publishing and of emitting, over the variant before
	maxVariantWAL  = 1.05
	// minSchemaRate is what is left where each payload is checked by a JSON Schema.
	minSchemaRate = 0.5
	manyTypes     = 500
	// turns is how often every installation is measured to judge it, each time with a part of the events: what else the
	// machine does comes and goes within seconds, and a short run is more likely to meet a moment without it.
	turns = 5
)

// variant is an installation that mode catalogue compares: the columns of the table, and whose event types they are.
type variant struct {
	name string
	// text columns instead of enums and UUIDs.
	text bool
	// types of one's own instead of the built-in ones, each with this schema.
	types  int
	schema catalogue.Schema
}

// benchSchema fits the events of the bench, which are those of order_created.
const benchSchema = `{"type": "object", "required": ["checkoutGroupId", "vendorOrderIds"], "properties": {
	"checkoutGroupId": {"type": "string", "format": "uuid"},
	"vendorOrderIds": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "uuid"}}}}`

func variants() []variant {
	return []variant{
		{name: "enum"},
		{name: "text", text: true},
		{name: fmt.Sprintf("text, %d types", manyTypes), text: true, types: manyTypes, schema: catalogue.Object},
		{name: fmt.Sprintf("text, %d types with JSON Schemas", manyTypes), text: true, types: manyTypes, schema: benchSchema},
	}
}

func (v variant) options() migrate.Options {
	if v.text {
		return migrate.Options{Types: migrate.TypesText}
	}
	return migrate.Options{}
}

// registry returns the event types of the variant, recorded in the database where they are not the built-in ones.
func (v variant) registry(ctx context.Context, db *database) (*registry.Registry, error) {
	if v.types == 0 {
		return registry.New(), nil
	}
	d := catalogue.Document{Name: "bench", Topics: map[string]string{domainTopic: topics()[domainTopic]}}
	for n := range v.types {
		d.Types = append(d.Types, catalogue.Type{Name: typeName(n), Topic: domainTopic, Aggregate: "checkout_group", Schema: v.schema})
	}
	built, err := catalogue.Build(d)
	if err != nil {
		return nil, err
	}
	return &registry.Registry{Catalogue: built, Source: "bench"}, built.Apply(ctx, db.pool)
}

func typeName(n int) string { return fmt.Sprintf("order.created.%03d", n) }

// retype makes an event one of the variant's.
func (v variant) retype(e emit.Event) emit.Event {
	if v.types > 0 {
		e.Type = typeName(rand.IntN(v.types))
	}
	return e
}

// catalogues drains and emits with every variant, in turn. To judge them, that is done several times, each time with another one
// first, and the best of each figure counts.
func (s *session) catalogues(ctx context.Context) (*Report, error) {
	p, times := s.params, 1
	if p.Check {
		p.Events, times = max(p.Events/turns, 1), turns
	}
	all := variants()
	best := make([]*Report, len(all))
	for turn := range times {
		for k := range all {
			i := (turn + k) % len(all)
			p.variant = all[i]
			r, err := s.one(ctx, p)
			if err != nil {
				return r, err
			}
			best[i] = best[i].bestOf(r)
		}
	}
	best[0].Compared = best[1:]
	if s.params.Check {
		best[0].judgeCatalogues()
	}
	return best[0], nil
}

// bestOf takes the better of each figure that is judged: whatever else the machine does only makes them worse.
func (r *Report) bestOf(other *Report) *Report {
	if r == nil {
		return other
	}
	faster := r
	if other.EventsPerSecond > r.EventsPerSecond {
		faster = other
	}
	emits, wal := max(r.EmitsPerSecond, other.EmitsPerSecond), min(r.WALBytesPerEvent, other.WALBytesPerEvent)
	faster.EmitsPerSecond, faster.WALBytesPerEvent = emits, wal
	return faster
}

// judgeCatalogues compares each variant with the one before: one thing differs between them.
func (r *Report) judgeCatalogues() {
	before := r
	for i, v := range r.Compared {
		if i == len(r.Compared)-1 { // the schemas, which cost what they cost
			r.atLeast(v.Variant+": publishing over the same without", v.EventsPerSecond/before.EventsPerSecond, minSchemaRate)
			continue
		}
		r.atLeast(fmt.Sprintf("%s: publishing over %s", v.Variant, before.Variant), v.EventsPerSecond/before.EventsPerSecond, minVariantRate)
		r.atLeast(fmt.Sprintf("%s: emitting over %s", v.Variant, before.Variant), v.EmitsPerSecond/before.EmitsPerSecond, minVariantRate)
		r.atMost(fmt.Sprintf("%s: WAL of publishing over %s", v.Variant, before.Variant), v.WALBytesPerEvent/before.WALBytesPerEvent, maxVariantWAL)
		before = v
	}
}
