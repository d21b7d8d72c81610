package stats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// HistorySpans are the spans that a history is shown for.
func HistorySpans() []string { return []string{"1h", "24h", "7d"} }

// historySpan is a span in even steps. One that begins with an hour has whole hours.
type historySpan struct{ length, step, begins time.Duration }

func historySpans() map[string]historySpan {
	const day = 24 * time.Hour
	return map[string]historySpan{
		"1h":  {time.Hour - time.Minute, time.Minute, time.Minute},
		"24h": {day, 10 * time.Minute, time.Hour},
		"7d":  {7 * day, time.Hour, time.Hour},
	}
}

// HistoryParams chooses what of the history is read.
type HistoryParams struct {
	// Span is one of HistorySpans.
	Span string
	// Topic and Type leave out all others; empty: none is.
	Topic, Type string
	// NoTypes leaves out the figures of each type.
	NoTypes bool
}

// HistoryFigures are what became of events.
type HistoryFigures struct {
	In     int64 `json:"in"`
	Out    int64 `json:"out"`
	Failed int64 `json:"failed"`
	Dead   int64 `json:"dead"`
	// P50 and P99 are how long half and nearly all of the published events took since they were to be
	// published; nil: none was.
	P50 *float64 `json:"p50Seconds"`
	P99 *float64 `json:"p99Seconds"`
}

// HistoryStep is one step of a history.
type HistoryStep struct {
	At time.Time `json:"at"`
	HistoryFigures
}

// HistoryType is the figures of one event type for the whole span.
type HistoryType struct {
	Topic string `json:"topic"`
	Type  string `json:"eventType"`
	HistoryFigures
}

// HistoryReport is what became of events over a span of time.
type HistoryReport struct {
	Span        string        `json:"span"`
	StepSeconds int64         `json:"stepSeconds"`
	Steps       []HistoryStep `json:"steps"`
	Types       []HistoryType `json:"types"`
}

// A range of the primary key. The steps are those of one row per hour, whatever is chosen ($2, $3);
// the types are summed up here where the hours are whole, and from their minutes where not ($4: one
// hour).
const selectHistory = `
SELECT h.at, h.topic, h.event_type, h.figures, CASE WHEN $4 <> '7d' AND (c.charted OR $4 = '1h') THEN h.minutes END, c.charted, c.listed
  FROM outbox_history AS h,
       LATERAL (SELECT h.event_type = $3::text AND (h.topic = $2::text OR $2 = '' AND $3 <> '') AS charted,
                       h.event_type <> '' AND ($2 = '' OR h.topic = $2) AND ($3 = '' OR h.event_type = $3) AND $5::boolean AS listed) AS c
 WHERE h.at >= $1::timestamptz AND (c.charted OR c.listed)`

// sums are the figures of outbox_history, added up.
type sums []int64

// add adds figures. Of the minutes of an hour it adds those from one on, before another.
func (s *sums) add(figures []int32) {
	for i, n := range figures {
		if i == len(*s) {
			*s = append(*s, 0)
		}
		(*s)[i] += int64(n)
	}
}

func (s *sums) addMinutes(minutes []int32, from, before int) {
	for i := 0; i < len(minutes); i += 60 {
		if i/60 == len(*s) {
			*s = append(*s, 0)
		}
		for _, n := range minutes[min(i+from, len(minutes)):min(i+before, len(minutes))] {
			(*s)[i/60] += int64(n)
		}
	}
}

func (s sums) figures() HistoryFigures {
	s = append(slices.Clone(s), make(sums, dispatch.HistoryLatency)...) // some are left out
	latency := s[dispatch.HistoryLatency:]
	return HistoryFigures{
		In: s[dispatch.HistoryIn], Out: s[dispatch.HistoryOut], Failed: s[dispatch.HistoryFailed], Dead: s[dispatch.HistoryDead],
		P50: quantile(latency, 0.5), P99: quantile(latency, 0.99),
	}
}

// History reads what became of events, with a step for each moment of the span, also where nothing
// happened.
func History(ctx context.Context, db outbox.Querier, now time.Time, p HistoryParams) (HistoryReport, error) {
	span, known := historySpans()[p.Span]
	if !known {
		return HistoryReport{}, fault.Usagef("span: %q is none of 1h, 24h, 7d", p.Span)
	}
	first := now.Add(-span.length).Truncate(span.begins)
	steps := make([]sums, int(now.Sub(first)/span.step)+1)
	types := map[HistoryType]*sums{}
	var at time.Time
	var key HistoryType
	var figures, minutes []int32
	var charted, listed bool
	args := []any{first.Truncate(time.Hour), p.Topic, p.Type, p.Span, !p.NoTypes}
	into := []any{&at, &key.Topic, &key.Type, &figures, &minutes, &charted, &listed}
	err := outbox.Each(ctx, db, "read the history", selectHistory, args, into, func() {
		if charted {
			for i := range steps {
				switch from := int(first.Add(time.Duration(i) * span.step).Sub(at).Minutes()); {
				case from < 0 || from >= 60:
				case span.step == time.Hour:
					steps[i].add(figures)
				default:
					steps[i].addMinutes(minutes, from, from+int(span.step.Minutes()))
				}
			}
		}
		if !listed {
			return
		}
		if types[key] == nil {
			types[key] = &sums{}
		}
		if minutes != nil && p.Span == "1h" {
			types[key].addMinutes(minutes, max(int(first.Sub(at).Minutes()), 0), min(int(now.Sub(at).Minutes())+1, 60))
		} else {
			types[key].add(figures)
		}
	})
	if err != nil {
		return HistoryReport{}, err
	}
	return historyReport(p.Span, first, span.step, steps, types), nil
}

func historyReport(span string, first time.Time, step time.Duration, steps []sums, types map[HistoryType]*sums) HistoryReport {
	r := HistoryReport{Span: span, StepSeconds: int64(step.Seconds()), Types: []HistoryType{}}
	for i, s := range steps {
		r.Steps = append(r.Steps, HistoryStep{first.Add(time.Duration(i) * step).UTC(), s.figures()})
	}
	for t, s := range types {
		t.HistoryFigures = s.figures()
		r.Types = append(r.Types, t)
	}
	slices.SortFunc(r.Types, func(a, b HistoryType) int {
		return cmp.Or(cmp.Compare(b.Out, a.Out), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type))
	})
	return r
}

// quantile is the latency in seconds that a share of the events did not exceed, as exact as the
// steps are.
func quantile(latency []int64, share float64) *float64 {
	var total, seen float64
	for _, n := range latency {
		total += float64(n)
	}
	for step, n := range latency {
		if want := share*total - seen; n > 0 && want <= float64(n) {
			begin, end := time.Duration(0), dispatch.LatencyEnd(step)
			if step > 0 {
				begin = dispatch.LatencyEnd(step - 1)
			}
			seconds := begin.Seconds() + (end-begin).Seconds()*want/float64(n)
			return &seconds
		}
		seen += float64(n)
	}
	return nil
}
