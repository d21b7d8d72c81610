package outbox

import (
	"context"
	"time"
)

// What can be paused.
const (
	PauseTopic     = "topic"
	PauseType      = "type"
	PauseTenant    = "tenant"
	PauseNamespace = "namespace"
)

// Pause is something that publishers leave alone until it is resumed or ends.
type Pause struct {
	Kind  string     `json:"kind" db:"kind"`
	Value string     `json:"value" db:"value"`
	Actor string     `json:"actor" db:"actor"`
	Note  string     `json:"note" db:"note"`
	At    time.Time  `json:"at" db:"at"`
	Until *time.Time `json:"until" db:"until"`
}

// HeldPause is a pause with what it holds back.
type HeldPause struct {
	Pause
	Events   int64      `json:"events" db:"events"`
	OldestAt *time.Time `json:"oldestAt" db:"oldest_at"`
}

const selectPauses = `
SELECT kind, value, actor, coalesce(note, '') AS note, at, until
  FROM outbox_pauses
 WHERE until IS NULL OR until > now()
 ORDER BY kind, value`

// Each pause walks outbox_events_seq_claim_idx, which is what waits. $1 has the texts of each, as a
// JSON array of arrays.
func selectHeld() string {
	return `
SELECT h.events, h.oldest_at
  FROM jsonb_array_elements($1::text::jsonb) WITH ORDINALITY AS p (texts, place),
       LATERAL (SELECT ARRAY(SELECT jsonb_array_elements_text(p.texts)) AS texts OFFSET 0) AS t,
       LATERAL (SELECT count(*) AS events, min(created_at) AS oldest_at
                  FROM outbox_events
                 WHERE published_at IS NULL AND dead_at IS NULL AND ` + Chosen("t.texts") + `) AS h
 ORDER BY p.place`
}

// Pauses reads what is paused now.
func Pauses(ctx context.Context, db Querier) ([]Pause, error) {
	return Rows[Pause](ctx, db, "read pauses", selectPauses)
}

// HeldPauses reads what is paused now and how much that holds back. names are the catalogue's.
func HeldPauses(ctx context.Context, db Querier, names Names) ([]HeldPause, error) {
	pauses, err := Pauses(ctx, db)
	if err != nil || len(pauses) == 0 {
		return []HeldPause{}, err
	}
	held, texts := make([]HeldPause, len(pauses)), make([][]string, len(pauses))
	for i, p := range pauses {
		held[i].Pause, texts[i] = p, p.Texts(names)
	}
	counts, err := Rows[HeldPause](ctx, db, "read pauses", selectHeld(), JSON{texts})
	for i, c := range counts {
		held[i].Events, held[i].OldestAt = c.Events, c.OldestAt
	}
	return held, err
}

// Texts is what the pause holds back, as Chosen compares it with rows. A type that was renamed is
// held under all of its names, whichever of them was paused.
func (p Pause) Texts(names Names) []string {
	switch p.Kind {
	case PauseTopic:
		return names.OnTopic(p.Value).Texts()
	case PauseType:
		return names.Called(p.Value).Texts()
	case PauseTenant:
		return []string{" " + p.Value}
	default:
		return []string{p.Value + " "}
	}
}

// Holds reports whether the pause holds back an event.
func (p Pause) Holds(names Names, e *Event) bool {
	switch p.Kind {
	case PauseTopic:
		return names.OnTopic(p.Value).Has(e.Namespace, e.EventType)
	case PauseType:
		return names.Called(p.Value).Has(e.Namespace, e.EventType)
	case PauseTenant:
		return e.TenantID != nil && p.Value == *e.TenantID
	default:
		return p.Value == e.Namespace
	}
}

// Name is how a publisher tells that it obeys the pause.
func (p Pause) Name() string { return p.Kind + "=" + p.Value }
