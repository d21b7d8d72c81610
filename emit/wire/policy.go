package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Policy is how publishers try the events of a type. Zero values leave it to the publisher.
type Policy struct {
	// MaxAttempts is after how many failed attempts an event dies.
	MaxAttempts int
	// BackoffMin and BackoffMax bound the wait after a failed attempt, which doubles each time.
	BackoffMin, BackoffMax time.Duration
	// ExpiresAfter is how long after it was emitted, or after the time it was scheduled for, an event
	// dies unpublished.
	ExpiresAfter time.Duration
	// Rate is how many events a second all live publishers send together.
	Rate float64
}

// policyJSON is a Policy as a catalogue records it.
type policyJSON struct {
	MaxAttempts  int         `json:"maxAttempts,omitempty"`
	Backoff      backoffJSON `json:"backoff,omitzero"`
	ExpiresAfter string      `json:"expiresAfter,omitempty"`
	Rate         float64     `json:"rate,omitempty"`
}

type backoffJSON struct {
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`
}

// MarshalJSON writes lengths of time as texts such as 1m30s.
func (p Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(policyJSON{p.MaxAttempts, backoffJSON{SpanText(p.BackoffMin), SpanText(p.BackoffMax)}, SpanText(p.ExpiresAfter), p.Rate})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Policy) UnmarshalJSON(text []byte) error {
	var read policyJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*p = Policy{MaxAttempts: read.MaxAttempts, Rate: read.Rate}
	for _, span := range []struct {
		text string
		into *time.Duration
	}{{read.Backoff.Min, &p.BackoffMin}, {read.Backoff.Max, &p.BackoffMax}, {read.ExpiresAfter, &p.ExpiresAfter}} {
		if span.text == "" {
			continue
		}
		var err error
		if *span.into, err = time.ParseDuration(span.text); err != nil {
			return err
		}
	}
	return nil
}

// SpanText writes a length of time without units that are zero: 24h, 1m30s. Zero is empty.
func SpanText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

// String says the policy in words; empty where it leaves everything to the publisher.
func (p Policy) String() string {
	var parts []string
	say := func(given bool, format string, args ...any) {
		if given {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	say(p.MaxAttempts > 0, "max_attempts %d", p.MaxAttempts)
	say(p.BackoffMin > 0, "backoff min %s", SpanText(p.BackoffMin))
	say(p.BackoffMax > 0, "backoff max %s", SpanText(p.BackoffMax))
	say(p.ExpiresAfter > 0, "expires_after %s", SpanText(p.ExpiresAfter))
	say(p.Rate > 0, "rate %g/s", p.Rate)
	return strings.Join(parts, ", ")
}

// EventType is what a publisher has to know of an event type.
type EventType struct {
	// Aggregate is the type of the aggregate that events are about; empty when they are about none.
	Aggregate string
	// Topic is the logical topic that events are published on.
	Topic string
	// Bare: payload_json is the data itself, without an envelope.
	Bare bool
	// RefuseOtherID: an event whose envelope has another eventId than its row cannot be published.
	RefuseOtherID bool
	// CloudEventsSource, when set, is the source of the CloudEvents that messages are.
	CloudEventsSource string
	// Policy is how its events are tried.
	Policy Policy
}
