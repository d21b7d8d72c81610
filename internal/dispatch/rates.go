package dispatch

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// rates keeps event types to the rate that the catalogue allows all publishers together: each live
// one takes an equal part of it. A claim may bring more of a type than that; the rest is given
// back, which writes no event, and the type is left out of claims until it may send again.
type rates struct {
	mu     sync.Mutex
	byName map[[2]string]*typeRate
	all    []*typeRate
}

// typeRate is the rate of one type, under all of its names.
type typeRate struct {
	name, namespace string
	types           outbox.Types
	perSecond       float64
	part            *rate.Limiter
	// held: events of it were given back since it was last left out of no claim.
	held bool
}

func newRates(catalogue Catalogue, names outbox.Names) *rates {
	r := &rates{byName: map[[2]string]*typeRate{}}
	for _, n := range names {
		t, _ := catalogue.Describe(n.Namespace, n.Name)
		if t.Policy.Rate == 0 {
			continue
		}
		one := r.byName[[2]string{n.Namespace, n.Type}]
		if one == nil {
			one = &typeRate{name: n.Type, namespace: n.Namespace, perSecond: t.Policy.Rate, types: names.Only(n.Namespace, n.Type)}
			one.part = rate.NewLimiter(one.share(1))
			r.all = append(r.all, one)
			r.byName[[2]string{n.Namespace, n.Type}] = one
		}
		r.byName[[2]string{n.Namespace, n.Name}] = one
	}
	return r
}

// share is the part of one of so many publishers. At most a second's worth is sent at once.
func (t *typeRate) share(publishers int) (part rate.Limit, burst int) {
	part = rate.Limit(t.perSecond / float64(max(publishers, 1)))
	return part, max(int(part), 1)
}

// of is the rate that a row's type has, or nil.
func (r *rates) of(row *Claimed) *typeRate {
	if t := r.byName[[2]string{row.Namespace, row.EventType}]; t != nil {
		return t
	}
	return r.byName[[2]string{outbox.AllNamespaces, row.EventType}]
}

// allow sorts claimed rows into those that may be sent now and those that are to be given back.
// Behind a row that is given back nothing of its ordering key is sent.
func (r *rates) allow(rows []Claimed, now time.Time) (allowed, rest []Claimed) {
	if len(r.all) == 0 {
		return rows, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	stopped := map[string]bool{}
	for i := range rows {
		t, key := r.of(&rows[i]), rows[i].OrderingKey
		switch {
		case key != "" && stopped[key]:
		case t == nil || t.part.AllowN(now, 1):
			allowed = append(allowed, rows[i])
			continue
		default:
			t.held = true
		}
		if key != "" {
			stopped[key] = true
		}
		rest = append(rest, rows[i])
	}
	return allowed, rest
}

// spent are the types that may not be sent now, and their names for detours. A type comes back with
// a quarter of a second's worth, so that a claim is not made for each event.
func (r *rates) spent(now time.Time) (types outbox.Types, names []string) {
	if len(r.all) == 0 {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.all {
		if !t.held {
			continue
		}
		if t.part.TokensAt(now) >= max(float64(t.part.Burst())/4, 1) {
			t.held = false
			continue
		}
		types = types.Or(t.types)
		names = append(names, "rate of "+t.namespace+" "+t.name)
	}
	return types, names
}

// holding reports whether events were given back and not yet looked for again.
func (r *rates) holding() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(t *typeRate) bool { return t.held })
}

// Rated reports whether the catalogue limits the rate of a type.
func (d *Dispatcher) Rated() bool { return len(d.rates.all) > 0 }

// ShareRates takes the part of each rate that falls to one of its publishers; live counts those
// that take a type.
func (d *Dispatcher) ShareRates(live func(namespace, eventType string) int) {
	d.rates.mu.Lock()
	defer d.rates.mu.Unlock()
	for _, t := range d.rates.all {
		part, burst := t.share(live(t.namespace, t.name))
		t.part.SetLimit(part)
		t.part.SetBurst(burst)
	}
}

// giveBack ends the lease of rows that may not be sent yet. They are below the hint then.
func (s *stream) giveBack(started time.Time, rows []Claimed) {
	if len(rows) == 0 {
		return
	}
	g := &group{}
	for i := range rows {
		g.rows = append(g.rows, &rows[i])
		g.bytes += rows[i].held()
	}
	s.cursor.rewind(time.Now())
	s.begin(g, started)
	s.settleGroup(g, Verdicts{Released: keysOf(g.rows)})
}

// Has reports whether a publisher that was told to take this takes a type.
func (t Takes) Has(namespace, eventType string) bool {
	return (t.Namespace == "" || namespace == outbox.AllNamespaces || t.Namespace == namespace) &&
		(len(t.EventTypes) == 0 || slices.Contains(t.EventTypes, eventType))
}
