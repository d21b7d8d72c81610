package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

const (
	// historySoon is when a publisher adds to the history first: whoever starts one looks for it.
	historySoon    = 10 * time.Second
	historyEvery   = time.Minute
	historyTimeout = 10 * time.Second
	// Of what is older, outbox_history has no minutes, and no row.
	minutesKept = 24 * time.Hour
	hoursKept   = 30 * 24 * time.Hour
)

// The figures of outbox_history; the steps of latency are behind them.
const (
	HistoryIn = iota
	HistoryOut
	HistoryFailed
	HistoryDead
	HistoryLatency
)

// historyFigures is how many figures there are: the last has what took longer than all steps.
const historyFigures = HistoryLatency + 24

// LatencyEnd is where a step of latency ends: at 5 ms, 10, 20, 50 and so on to 100,000 s.
func LatencyEnd(step int) time.Duration {
	step++
	ms := [...]int64{2, 5, 10}[step%3]
	for range step / 3 {
		ms *= 10
	}
	return time.Duration(ms) * time.Millisecond
}

func latencyStep(d time.Duration) (step int) {
	for step < historyFigures-HistoryLatency-1 && d > LatencyEnd(step) {
		step++
	}
	return step
}

// Rows are added in one order, so that two publishers wait for each other and do not deadlock.
const addHistorySQL = `
INSERT INTO outbox_history AS h (at, topic, event_type, figures, minutes)
SELECT r.at, r.topic, r.type, r.figures, r.minutes
  FROM jsonb_to_recordset($1::text::jsonb) AS r(at timestamptz, topic text, type text, figures integer[], minutes integer[])
 ORDER BY r.at, r.topic, r.type
ON CONFLICT ON CONSTRAINT outbox_history_pkey DO UPDATE
   SET figures = ARRAY(SELECT coalesce(a, 0) + coalesce(b, 0) FROM unnest(h.figures, excluded.figures) WITH ORDINALITY AS u(a, b, i) ORDER BY i),
       minutes = CASE WHEN h.minutes IS NULL OR excluded.minutes IS NULL THEN coalesce(h.minutes, excluded.minutes)
                      ELSE ARRAY(SELECT coalesce(a, 0) + coalesce(b, 0) FROM unnest(h.minutes, excluded.minutes) WITH ORDINALITY AS u(a, b, i) ORDER BY i) END`

// History counts what becomes of events, and adds it to outbox_history once a minute. It is an
// Observer.
type History struct {
	Observers // none: what else there is to observe is not counted
	DB        Execer
	Observe   Observer
	Now       func() time.Time

	mu     sync.Mutex
	counts map[historyKey]*[historyFigures]int64
}

// historyKey is a span of time, by its number since 1970, and what was published in it.
type historyKey struct {
	at          int64
	topic, name string
}

// historyRow is a row as addHistorySQL reads it.
type historyRow struct {
	At      time.Time `json:"at"`
	Topic   string    `json:"topic"`
	Type    string    `json:"type"`
	Figures []int64   `json:"figures"`
	Minutes []int64   `json:"minutes,omitempty"`
}

// Published implements Observer.
func (h *History) Published(topic string, _ time.Duration, attempts []Attempt) {
	now := h.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range attempts {
		if a.Outcome == OutcomeReleased {
			continue
		}
		if a.Row.AttemptCount == 0 && a.Row.CopyOf == "" {
			h.at(a.Row.CreatedAt, topic, a.Row.EventType)[HistoryIn]++
		}
		figures := h.at(now, topic, a.Row.EventType)
		switch a.Outcome {
		case OutcomePublished:
			figures[HistoryOut]++
			figures[HistoryLatency+latencyStep(now.Sub(a.Row.Since))]++
		case OutcomeDead:
			figures[HistoryDead]++
		default:
			figures[HistoryFailed]++
		}
	}
}

func (h *History) at(t time.Time, topic, name string) *[historyFigures]int64 {
	key := historyKey{t.Unix() / 60, topic, name}
	if h.counts[key] == nil {
		if h.counts == nil {
			h.counts = map[historyKey]*[historyFigures]int64{}
		}
		h.counts[key] = new([historyFigures]int64)
	}
	return h.counts[key]
}

// Run adds what was counted once a minute, and at last when ctx ends.
func (h *History) Run(ctx context.Context) {
	due := time.NewTimer(historySoon)
	defer due.Stop()
	for {
		select {
		case <-due.C:
			h.Flush(ctx)
			due.Reset(historyEvery)
		case <-ctx.Done():
			h.Flush(context.WithoutCancel(ctx))
			return
		}
	}
}

// Flush adds what was counted to the table. What cannot be added is lost: it is not worth keeping
// the memory for.
func (h *History) Flush(ctx context.Context) {
	h.mu.Lock()
	counts := h.counts
	h.counts = nil
	h.mu.Unlock()
	rows := historyRows(counts, h.Now())
	if len(rows) == 0 {
		return
	}
	doc, _ := json.Marshal(rows) // numbers and texts always encode
	within, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	if _, err := h.DB.Exec(within, addHistorySQL, string(doc)); err != nil && ctx.Err() == nil {
		h.Observe.Trouble("add to the history", err)
	}
}

// historyRows are the rows of the hours: each minute counts for its type, its topic and all.
func historyRows(counts map[historyKey]*[historyFigures]int64, now time.Time) (list []historyRow) {
	rows := map[historyKey]*historyRow{}
	for key, figures := range counts {
		age, minute := now.Sub(time.Unix(key.at*60, 0)), int(key.at%60)
		if age > hoursKept {
			continue
		}
		key.at /= 60
		for _, key := range []historyKey{key, {key.at, key.topic, ""}, {key.at, "", ""}} {
			row := rows[key]
			if row == nil {
				row = &historyRow{At: time.Unix(key.at*3600, 0).UTC(), Topic: key.topic, Type: key.name, Figures: make([]int64, historyFigures)}
				rows[key] = row
			}
			if row.Minutes == nil && age < minutesKept {
				row.Minutes = make([]int64, 60*historyFigures)
			}
			for i, n := range figures {
				row.Figures[i] += n
				if row.Minutes != nil {
					row.Minutes[60*i+minute] += n
				}
			}
		}
	}
	for _, row := range rows {
		row.Figures, row.Minutes = withoutZeros(row.Figures), withoutZeros(row.Minutes)
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b historyRow) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type))
	})
	return list
}

// withoutZeros leaves out the zeros at the end.
func withoutZeros(n []int64) []int64 {
	for len(n) > 0 && n[len(n)-1] == 0 {
		n = n[:len(n)-1]
	}
	return n
}
