package bench

import "context"

// The criteria of mode ordered.
const (
	minOrderedRate = 0.5 // of the same events without keys, at two rows a key
	maxOrderedCost = 1.6 // of claim and settle, by their time
)

// Rounds is how often compared drains are repeated, in turn; the best of each counts, since whatever disturbs a run only makes
// it slower.
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
