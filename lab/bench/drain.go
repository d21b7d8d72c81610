package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// one measures a single drain of events that it emits.
func (s *Session) one(ctx context.Context, p Params) *Report {
	return s.trial(ctx, p, func(t *Trial) *Report {
		t.emit(ctx, p.Events)
		return t.drain(ctx)
	})
}

func (s *Session) oneOf(ctx context.Context, p Params) func() *Report {
	return func() *Report { return s.one(ctx, p) }
}

// drain empties a backlog.
func drain(ctx context.Context, s *Session, p Params) *Report {
	r := s.one(ctx, p)
	if p.Check {
		r.checkShape()
	}
	return r
}

// head is what stands in the way of a drain or lies behind it: rows that a publisher has to leave as
// they are. Each is a mode.
type head struct {
	name, summary string
	rows          int
	of            eventType
	columns       map[string]string
	pause         bool // the head's type
	keyed         bool // so are the events that are measured
	minRate       float64
}

func heads() []head {
	return []head{
		{name: "backing-off", summary: "drain behind --head rows that wait for their next attempt", rows: 100_000, of: order(), minRate: 0.5,
			columns: map[string]string{"attempt_count": "3", "next_attempt_at": "now() + interval '1 hour'"}},
		{name: "scheduled", summary: "drain behind --head rows that are to be delivered later", rows: 100_000, of: order(), minRate: 0.5,
			columns: map[string]string{"deliver_at": "now() + interval '1 hour'", "next_attempt_at": "now() + interval '1 hour'"}},
		{name: "paused", summary: "drain behind --head rows of a paused type", rows: 1_000_000, of: held(), pause: true, minRate: 0.5},
		{name: "missing-topic", summary: "drain behind --head rows of a topic that the broker lacks", rows: 1_000_000, of: payment(), minRate: 0.5},
		{name: "history", summary: "drain with --head published rows lying behind", rows: 5_000_000, of: order(), minRate: 1 / 1.2,
			columns: map[string]string{"published_at": "now()"}},
		parked(),
	}
}

// parked is a dead event of an ordering key, and what waits behind it.
func parked() head {
	return head{name: "parked", summary: "drain with ordering keys behind --head rows that a dead event parks", rows: 100_000, of: order(), keyed: true,
		minRate: 0.8, columns: map[string]string{"dead_at": "CASE WHEN n = 0 THEN now() END", "ordering_key": "'default/parked'"}}
}

func (h head) mode() Mode {
	return Mode{h.name, h.summary, Sizes{Head: h.rows}, func(ctx context.Context, s *Session, p Params) *Report {
		plain := p
		if h.keyed && p.Keys == 0 {
			plain.Keys = max(p.Events/2, 1)
		}
		behind := plain
		plain.Head = 0
		if !p.Check {
			return s.behind(ctx, h, behind)
		}
		best := inTurn(1, func() *Report { return s.behind(ctx, h, behind) }, s.oneOf(ctx, plain))
		report := best[0]
		report.Compared = best[1:]
		report.AtLeast("rate over one without a head", report.EventsPerSecond/best[1].EventsPerSecond, h.minRate)
		return report
	}}
}

// headSQL is what a publisher could have changed of the rows in the way.
const headSQL = `SELECT count(published_at) + count(dead_at) + coalesce(sum(attempt_count), 0) FROM outbox_events WHERE NOT ` + measured

// behind drains behind a head.
func (s *Session) behind(ctx context.Context, h head, p Params) *Report {
	p.types = []eventType{order(), h.of}
	return s.trial(ctx, p, func(t *Trial) *Report {
		t.fill(ctx, p.Head, h.of, h.columns)
		if h.pause {
			t.Outboxctl(ctx, t.env(), "pause", "--type", h.of.name, "--note", "bench", "--yes")
		}
		t.emit(ctx, p.Events)
		var before, after int64
		rig.Check(t.pool.QueryRow(ctx, headSQL).Scan(&before))
		r := t.drain(ctx)
		rig.Check(t.pool.QueryRow(ctx, headSQL).Scan(&after))
		if r.HeadDisturbed = after - before; r.HeadDisturbed != 0 {
			rig.Check(&wrongError{fmt.Errorf("%d changes to the %d rows that had to be left alone", r.HeadDisturbed, p.Head), r})
		}
		return r
	})
}

// The criteria of mode backlog.
const (
	maxBacklogCost = 1.3
	maxIndexGrowth = 1.5
	// smallBacklog takes long enough for its rate to be steady.
	smallBacklog = 200_000
)

// backlog compares the cost per event of a small and a large backlog.
func backlog(ctx context.Context, s *Session, p Params) *Report {
	of := func(n int) func() *Report {
		return func() *Report {
			return s.trial(ctx, p, func(t *Trial) *Report {
				t.fill(ctx, n, order(), map[string]string{"aggregate_id": "ids.id"})
				t.emitted, t.Head = n, 0
				return t.drain(ctx)
			})
		}
	}
	if !p.Check {
		return of(p.Head)()
	}
	small := inTurn(p.Rounds, of(min(smallBacklog, p.Head)))
	report := of(p.Head)()
	report.Compared = small
	report.AtMost(fmt.Sprintf("cost per event over a backlog of %d", small[0].Events), small[0].EventsPerSecond/report.EventsPerSecond, maxBacklogCost)
	report.AtMost("indexes of open events over their size before", report.ClaimIndexGrowth, maxIndexGrowth)
	report.checkShape()
	return report
}

// The criteria of mode keys.
const (
	minOrderedRate = 0.5 // of the same events without keys, at two rows a key
	maxOrderedCost = 1.6 // of claim and settle, by their time
	minKeyMBPerSec = 2.0
	fewKeys        = 1000
	hotShare       = 5 // one key gets a fifth of the events
)

// keys measures a drain with two events a key, and to judge it one without keys, with a thousand,
// with one, and behind parked rows.
func keys(ctx context.Context, s *Session, p Params) *Report {
	keyed := p
	keyed.Head = 0
	if p.Keys == 0 {
		keyed.Keys = max(p.Events/2, 1)
	}
	if !p.Check {
		return s.one(ctx, keyed)
	}
	plain, few, hot, behind := keyed, keyed, keyed, keyed
	plain.Keys, few.Keys = 0, min(fewKeys, p.Events)
	hot.Keys, hot.Events = 1, max(p.Events/hotShare, 1)
	behind.Head = p.Head
	best := inTurn(p.Rounds, s.oneOf(ctx, keyed), s.oneOf(ctx, plain))
	report, without := best[0], best[1]
	single, beside := s.one(ctx, hot), s.behind(ctx, parked(), behind)
	report.Compared = []*Report{without, s.one(ctx, few), single, beside}
	cost := func(r *Report) float64 { return r.Claim.MicrosPerEvent + r.Settle.MicrosPerEvent }
	report.AtLeast("rate over the same without keys", report.EventsPerSecond/without.EventsPerSecond, minOrderedRate)
	report.AtMost("claim and settle over the same without keys", cost(report)/cost(without), maxOrderedCost)
	report.AtLeast("MB/s of one key", single.EventsPerSecond*float64(single.PayloadBytes)/1e6, minKeyMBPerSec)
	report.AtLeast(fmt.Sprintf("rate beside %d parked events", beside.Head), beside.EventsPerSecond/report.EventsPerSecond, parked().minRate)
	return report
}

// The criteria of mode catalogue.
const (
	minVariantRate = 0.95 // of publishing, with many types over one
	maxVariantWAL  = 1.05
	// minSchemaRate is what is left where each payload is checked by a JSON Schema.
	minSchemaRate = 0.5
	manyTypes     = 500
)

// benchSchema fits the events of the bench.
func benchSchema() any {
	id := map[string]any{"type": "string", "format": "uuid"}
	return map[string]any{"type": "object", "required": []string{"checkoutGroupId", "vendorOrderIds"}, "properties": map[string]any{
		"checkoutGroupId": id, "vendorOrderIds": map[string]any{"type": "array", "minItems": 1, "items": id}}}
}

// withTypes gives the catalogue many types of one schema, of which each event has any.
func (p Params) withTypes(schema any) Params {
	p.types = nil
	for n := range manyTypes {
		p.types = append(p.types, eventType{fmt.Sprintf("order.created.%03d", n), ordersTopic, schema})
	}
	types := p.types
	p.retype = func() string { return types[rand.IntN(len(types))].name }
	return p
}

// catalogues drains with every catalogue, in turn.
func catalogues(ctx context.Context, s *Session, p Params) *Report {
	best := inTurn(p.Rounds, s.oneOf(ctx, p), s.oneOf(ctx, p.withTypes("object")), s.oneOf(ctx, p.withTypes(benchSchema())))
	report, many, checked := best[0], best[1], best[2]
	many.Variant, checked.Variant = fmt.Sprintf("of %d types", manyTypes), fmt.Sprintf("of %d types with JSON Schemas", manyTypes)
	report.Compared = best[1:]
	if p.Check {
		report.AtLeast(many.Variant+": rate over one", many.EventsPerSecond/report.EventsPerSecond, minVariantRate)
		report.AtMost(many.Variant+": WAL over one", many.WALBytesPerEvent/report.WALBytesPerEvent, maxVariantWAL)
		report.AtLeast(checked.Variant+": rate over the same without", checked.EventsPerSecond/many.EventsPerSecond, minSchemaRate)
	}
	return report
}
