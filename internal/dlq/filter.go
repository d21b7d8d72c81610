package dlq

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

type (
	// Filter chooses dead letters by their columns.
	Filter = outbox.Filter
	// Query chooses dead letters as an operator writes it.
	Query = outbox.Query
	// Target is what was chosen.
	Target = outbox.Target
)

// The ends of the ids at one time.
const (
	lowestID  = "00000000-0000-0000-0000-000000000000"
	highestID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

// compile turns a filter into a walk over dead letters. The state is written out, from a list:
// PostgreSQL matches a partial index only to a constant. At most one condition leads an index, of
// which there is one of the open rows for each column but aggregate_type; the others are compared.
func compile(f Filter) (outbox.Walk, error) {
	w := outbox.Walk{
		Table: "outbox_dlq", Columns: "event_id, failed_at AS at", Key: "failed_at", Cast: "timestamptz",
		Low: &outbox.Position{Key: "-infinity", ID: lowestID}, High: &outbox.Position{Key: "infinity", ID: highestID},
	}
	if !f.Since.IsZero() {
		w.Low.Key = instant(f.Since)
	}
	if !f.Until.IsZero() {
		w.High = &outbox.Position{Key: instant(f.Until), ID: lowestID}
	}
	switch f.State {
	case "":
	case StateOpen, StateDiscarded: // these have indexes of their own
		w.Decided = []string{"state = '" + f.State + "'"}
	case StateReplayed:
		w.Rest = []string{"state = '" + f.State + "'"}
	default:
		return w, fmt.Errorf("unknown state %q", f.State)
	}
	for _, c := range f.Conditions() {
		switch {
		case len(c.Values) == 0:
		case len(c.Values) == 1 && c.Column != "aggregate_type" && f.State == StateOpen && w.Lead == "":
			w.Lead, w.LeadValue = c.Column, c.Cast.One(w.Bind(c.Values[0]))
		default:
			w.Rest = append(w.Rest, c.SQL(&w))
		}
	}
	if f.ErrorLike != "" {
		w.Rest = append(w.Rest, "error_message ILIKE "+w.Bind(likePattern(f.ErrorLike)))
	}
	if f.Blocking {
		w.Rest = append(w.Rest, blocksSomething)
	}
	return w, nil
}

// where is a compiled filter as one condition.
func where(f Filter, w *outbox.Walk) string {
	all := slices.Clone(w.Decided)
	if w.Lead != "" {
		all = append(all, w.Lead+" = "+w.LeadValue)
	}
	return outbox.And(slices.Concat(all, f.Span(w, "failed_at"), w.Rest)...)
}

// ScanDeadLetters starts a scan in order of time.
func (o *Outbox) ScanDeadLetters(f Filter, order outbox.Order) (*outbox.Scan[Entry], error) {
	w, err := compile(f)
	return &outbox.Scan[Entry]{
		DB: o.DB, Walk: w, Order: order, Read: o.Entries,
		Page: func(where, orderBy string, n int) string {
			return fmt.Sprintf(selectPage, where, orderBy, n, order, pageColumns())
		},
		At: func(e Entry) outbox.Position { return outbox.Position{Key: instant(e.FailedAt), ID: e.ID} },
	}, err
}

// instant is a time as text that every PostgreSQL reads the same way.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// likePattern finds text anywhere in a message. What ILIKE would take for a
// wildcard is meant literally; an asterisk stands for anything.
func likePattern(text string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(text)
	return "%" + escaped + "%"
}
