package bench

import (
	"context"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// Mode is what is measured, and how. A mode that only drains leaves everything but Name and Measure
// to the defaults.
type Mode struct {
	Name string
	// Summary is its line in the command's help.
	Summary string
	// Defaults are what zero parameters mean, where that is not the same for all.
	Defaults Sizes
	// Measure makes the runs and reports the one that the others are compared with.
	Measure func(ctx context.Context, s *Session) (*Report, error)

	// Inside measures from inside the publishers' process, which Processes would take away.
	Inside bool
	// Acks keeps when each event was acknowledged, for its latency.
	Acks bool
	// To is where messages go instead of to the Pub/Sub fake.
	To func(r *Trial) dispatch.Publisher
	// Loop empties the outbox instead of the dispatcher, by one update per event.
	Loop func(ctx context.Context, r *Trial) (time.Duration, error)
	// Verify looks at what an exact run has left beside its events.
	Verify func(ctx context.Context, r *Trial, report *Report) error
	// Partly allows a publisher process to end with the exit code for an unreachable topic.
	Partly bool
}

// Sizes are what modes have defaults of their own for.
type Sizes struct {
	Events, Publishers, Rate, Head int
	Duration                       time.Duration
}

// Modes are those of the command.
func Modes() []Mode { return []Mode{Drain(), Steady(), Publishers(), Ordered(), Consume()} }

// Drain empties a backlog.
func Drain() Mode {
	return Mode{Name: "drain", Summary: "empty a backlog", Measure: func(ctx context.Context, s *Session) (*Report, error) {
		r, err := s.One(ctx, s.Params)
		if r != nil && s.Params.Check {
			r.CheckShape()
		}
		return r, err
	}}
}

// Steady offers a steady rate and measures commit to acknowledgement.
func Steady() Mode {
	return Mode{Name: "steady", Summary: "commit at a steady --rate for --duration; from commit to acknowledgement",
		Inside: true, Acks: true, Measure: steady}
}

// Publishers lets several publishers share a backlog.
func Publishers() Mode {
	return Mode{Name: "publishers", Summary: "several publishers share a backlog",
		Defaults: Sizes{Events: 100_000, Publishers: 3},
		Measure: func(ctx context.Context, s *Session) (*Report, error) {
			r, err := s.One(ctx, s.Params)
			if r != nil && s.Params.Check {
				r.AtMost("lost", float64(r.Delivery.Missing), 0)
				r.AtMost("duplicates", float64(r.Delivery.Duplicates), 0)
				r.CheckShape()
			}
			return r, err
		}}
}

// Ordered drains events with ordering keys.
func Ordered() Mode {
	return Mode{Name: "ordered", Summary: "drain events of --keys ordering keys; --check compares with the same without keys",
		Measure: ordered}
}

// Consume lets the example consumer handle a waiting subscription. The fake walks over everything
// that waits in it, a hundred times a second, so the events are few.
func Consume() Mode {
	return Mode{Name: "consume", Summary: "the example consumer on a waiting subscription: Redis, handler, inbox, acknowledgement",
		Inside: true, Defaults: Sizes{Events: 10_000}, Measure: consuming}
}

// Installation is whose event types are measured, on which columns. Zero means the built-in ones on
// enums.
type Installation struct {
	Name    string
	Options migrate.Options
	// Registry records the event types in the database and returns them; nil means the built-in ones.
	Registry func(ctx context.Context, db *Database) (*registry.Registry, error)
	// Retype makes an event one of these types.
	Retype func(e *emit.Event)
}

// The criteria of mode ordered.
const (
	minOrderedRate = 0.5 // of the same events without keys, at two rows a key
	maxOrderedCost = 1.6 // of claim and settle, by their time
)

// Rounds is how often compared drains are repeated, in turn; the best of each counts, since
// whatever disturbs a run only makes it slower.
const Rounds = 2

// ordered drains events with keys and, to judge it, the same ones without.
func ordered(ctx context.Context, s *Session) (*Report, error) {
	p := s.Params
	if p.Keys == 0 {
		p.Keys = max(p.Events/2, 1)
	}
	if !p.Check {
		return s.One(ctx, p)
	}
	plain := p
	plain.Keys = 0
	var without, best *Report
	var err error
	for range Rounds {
		if without, err = s.Better(ctx, plain, without); err != nil {
			return without, err
		}
		if best, err = s.Better(ctx, p, best); err != nil {
			return best, err
		}
	}
	best.Compared = []*Report{without}
	best.AtLeast("rate over the same without keys", best.EventsPerSecond/without.EventsPerSecond, minOrderedRate)
	best.AtMost("claim and settle over the same without keys", cost(best)/cost(without), maxOrderedCost)
	return best, nil
}

func cost(r *Report) float64 { return r.Claim.MicrosPerRow + r.Settle.MicrosPerRow }

// Better drains once more and returns the faster of the two, or the wrong one.
func (s *Session) Better(ctx context.Context, p Params, so *Report) (*Report, error) {
	return Faster(so, func() (*Report, error) { return s.One(ctx, p) })
}

// Faster is Better with a drain of its own.
func Faster(so *Report, drain func() (*Report, error)) (*Report, error) {
	r, err := drain()
	if err != nil || so == nil || r.EventsPerSecond > so.EventsPerSecond {
		return r, err
	}
	return so, nil
}
