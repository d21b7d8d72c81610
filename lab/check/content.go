package check

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxctl/outboxctl/lab/history"
)

// content is I8. At most one violation per event: the first thing that differs tells the story.
func (c *checker) content(e *event) {
	if len(e.stored) == 0 || len(e.rows) == 0 {
		return
	}
	c.checked("I8")
	for _, a := range e.stored {
		row := e.rowOf(a.EventID)
		if row == nil {
			continue
		}
		if a.Data != row.Payload {
			c.violate("I8", e.id, "message %s does not hold the payload of its row: %d bytes, first difference at %d",
				a.MessageID, len(a.Data), firstDifference(a.Data, row.Payload))
			return
		}
		if name, differs := attributeDiffers(a, row); differs {
			c.violate("I8", e.id, "message %s: attribute %s is %q, its row gives %q", a.MessageID, name,
				a.Attributes[name], wantedAttributes(row)[name])
			return
		}
	}
	row := e.row()
	if e.ledger != nil && e.ledger.Data != "" && !dataIs(row.Payload, e.ledger.Data) {
		c.violate("I8", e.id, "its row's payload does not say what the producer meant: %s",
			shorten(e.ledger.Data))
		return
	}
	byMessage := func(a *history.Arrival) bool { return a.MessageID == row.State.MessageID }
	if !row.State.Published.IsZero() && !slices.ContainsFunc(e.stored, byMessage) {
		c.violate("I8", e.id, "its row names message %q, which is none of its %d messages",
			row.State.MessageID, len(e.stored))
	}
}

func (e *event) rowOf(id string) *history.Row {
	for _, row := range e.rows {
		if row.EventID == id {
			return row
		}
	}
	return nil
}

func wantedAttributes(row *history.Row) map[string]string {
	wanted := make(map[string]string, len(row.Headers)+8)
	maps.Copy(wanted, row.Headers)
	wanted["event_id"] = row.EventID
	wanted["event_type"] = row.Type
	wanted["aggregate_type"] = row.AggregateType
	wanted["aggregate_id"] = row.AggregateID
	wanted["created_at"] = row.CreatedAt
	wanted["namespace"] = row.Namespace
	if row.OrderingKey != "" {
		wanted["event_seq"] = strconv.FormatInt(row.Seq, 10)
	}
	for name, value := range map[string]string{"tenant_id": row.TenantID,
		"dedupe_key": row.DedupeKey} {
		if value != "" {
			wanted[name] = value
		}
	}
	return wanted
}

func attributeDiffers(a *history.Arrival, row *history.Row) (name string, differs bool) {
	wanted := wantedAttributes(row)
	all := maps.Clone(wanted)
	maps.Copy(all, a.Attributes)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value, there := a.Attributes[name]
		if want, wants := wanted[name]; value != want || there != wants {
			return name, true
		}
	}
	return "", false
}

// dataIs reports whether the envelope's data means the same as the producer's JSON.
func dataIs(payload, meant string) bool {
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal([]byte(payload), &envelope); err != nil {
		return false
	}
	return sameJSON(envelope.Data, []byte(meant))
}

func firstDifference(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func shorten(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// sameJSON compares two documents by what they mean: the order of members does not matter and 1e2
// is 100, but no digit of a number is lost to a float.
func sameJSON(a, b []byte) bool {
	left, err := decode(a)
	if err != nil {
		return false
	}
	right, err := decode(b)
	return err == nil && reflect.DeepEqual(left, right)
}

// decode reads a document with all numbers in one form.
func decode(text []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&value)
	return normal(value), err
}

func normal(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = normal(v[name])
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case json.Number:
		return decimal(v)
	}
	return value
}

// decimal brings a number to one form: its significant digits and the power of ten of the last one.
func decimal(n json.Number) json.Number {
	text, negative := strings.CutPrefix(strings.ToLower(n.String()), "-")
	mantissa, power, _ := strings.Cut(text, "e")
	exponent, _ := strconv.Atoi(power)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	if short == "" {
		return "0"
	}
	if negative {
		short = "-" + short
	}
	return json.Number(short + "e" + strconv.Itoa(exponent))
}
