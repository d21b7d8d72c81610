package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
)

const (
	minVariantRate = 0.95 // of publishing and of emitting, over the variant before
	maxVariantWAL  = 1.05
	// minSchemaRate is what is left where each payload is checked by a JSON Schema.
	minSchemaRate = 0.5
	manyTypes     = 500
	// turns is how often every installation is measured to judge it, each time with a part of the
	// events: what else the machine does comes and goes within seconds, and a short run is more likely
	// to meet a moment without it.
	turns = 5
)

// benchSchema fits the events of the bench, which are those of order_created.
const benchSchema = `{"type": "object", "required": ["checkoutGroupId", "vendorOrderIds"], "properties": {
	"checkoutGroupId": {"type": "string", "format": "uuid"},
	"vendorOrderIds": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "uuid"}}}}`

func installations() []bench.Installation {
	text := migrate.Options{Types: migrate.TypesText}
	return []bench.Installation{
		{Name: "enum"},
		{Name: "text", Options: text},
		{Name: fmt.Sprintf("text, %d types", manyTypes), Options: text, Registry: typesWith(catalogue.Object), Retype: retype},
		{Name: fmt.Sprintf("text, %d types with JSON Schemas", manyTypes), Options: text, Registry: typesWith(benchSchema), Retype: retype},
	}
}

// typesWith records many types of one schema.
func typesWith(schema catalogue.Schema) func(context.Context, *bench.Database) (*registry.Registry, error) {
	return func(ctx context.Context, db *bench.Database) (*registry.Registry, error) {
		d := catalogue.Document{Name: "bench", Topics: map[string]string{"domain": bench.DomainTopic}}
		for n := range manyTypes {
			d.Types = append(d.Types, catalogue.Type{Name: typeName(n), Topic: "domain", Aggregate: "checkout_group", Schema: schema})
		}
		built, err := catalogue.Build(d)
		if err != nil {
			return nil, err
		}
		return &registry.Registry{Catalogue: built, Source: "bench"}, built.Apply(ctx, db.Pool)
	}
}

func retype(e *emit.Event) { e.Type = typeName(rand.IntN(manyTypes)) }

func typeName(n int) string { return fmt.Sprintf("order.created.%03d", n) }

// catalogues drains and emits with every variant, in turn. To judge them, that is done several
// times, each time with another one first, and the best of each figure counts.
func catalogues(ctx context.Context, s *bench.Session) *bench.Report {
	p, times := s.Params, 1
	if p.Check {
		p.Events, times = max(p.Events/turns, 1), turns
	}
	all := installations()
	best := make([]*bench.Report, len(all))
	for turn := range times {
		for k := range all {
			i := (turn + k) % len(all)
			p.Installation = all[i]
			best[i] = bestOf(best[i], must(s.One(ctx, p)))
		}
	}
	best[0].Compared = best[1:]
	if s.Params.Check {
		judgeCatalogues(best[0])
	}
	return best[0]
}

// bestOf takes the better of each figure that is judged: whatever else the machine does only makes
// them worse.
func bestOf(r, other *bench.Report) *bench.Report {
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
func judgeCatalogues(r *bench.Report) {
	before := r
	for i, v := range r.Compared {
		if i == len(r.Compared)-1 { // the schemas, which cost what they cost
			r.AtLeast(v.Variant+": publishing over the same without", v.EventsPerSecond/before.EventsPerSecond, minSchemaRate)
			continue
		}
		r.AtLeast(fmt.Sprintf("%s: publishing over %s", v.Variant, before.Variant), v.EventsPerSecond/before.EventsPerSecond, minVariantRate)
		r.AtLeast(fmt.Sprintf("%s: emitting over %s", v.Variant, before.Variant), v.EmitsPerSecond/before.EmitsPerSecond, minVariantRate)
		r.AtMost(fmt.Sprintf("%s: WAL of publishing over %s", v.Variant, before.Variant), v.WALBytesPerEvent/before.WALBytesPerEvent, maxVariantWAL)
		before = v
	}
}
