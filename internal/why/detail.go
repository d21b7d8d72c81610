package why

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

const (
	detailNeighbours   = 5               // of the aggregate, on either side
	detailRedisTimeout = 2 * time.Second // a detail can do without
)

// DetailParams names what to describe.
type DetailParams struct {
	// ID is an event's or a dead letter's.
	ID string
	// Payload asks for what the event carries, which not every role may read.
	Payload bool
	// Consumers are the names whose marks to read; empty: every consumer that is known.
	Consumers []string
}

// Surroundings is what belongs to an event besides its row.
type Surroundings struct {
	History []dlq.Step `json:"history"`
	// Neighbours are the events of the same aggregate around it, oldest first.
	Neighbours []outbox.Event `json:"neighbours"`
	Consumers  []idem.Mark    `json:"consumers"`
	// Failures are of consumers that could not handle it.
	Failures []consumers.Failure `json:"failures"`
	// ConsumersError is why the consumers' marks could not be read. Nothing else depends on them.
	ConsumersError string          `json:"consumersError,omitempty"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	Headers        json.RawMessage `json:"headers,omitempty"`
}

// EventDetail is everything that is known about an event.
type EventDetail struct {
	outbox.Event
	Surroundings
}

// DeadLetterDetail is everything that is known about a dead letter and its event.
type DeadLetterDetail struct {
	dlq.Entry
	// Event is nil when cleanup has removed its row.
	Event *outbox.Event `json:"event"`
	Surroundings
}

// Event describes an event.
func Event(ctx context.Context, o *dlq.Outbox, p DetailParams) (EventDetail, error) {
	if err := p.Check(); err != nil {
		return EventDetail{}, err
	}
	id, err := o.EventID(ctx, p.ID)
	if err != nil {
		return EventDetail{}, err
	}
	event, err := o.Event(ctx, id)
	if err != nil {
		return EventDetail{}, err
	}
	if event == nil {
		return EventDetail{}, fault.Hint(fault.NotFoundf("no event %s", id), "outboxctl why %s tells what is known about it", id)
	}
	d := EventDetail{Event: *event}
	if d.Surroundings, err = surroundings(ctx, o, event, *event, p.Consumers); err != nil {
		return EventDetail{}, err
	}
	err = d.addContent(p, func() (outbox.Content, error) { return o.EventContent(ctx, id) })
	return d, err
}

// DeadLetter describes a dead letter. Of an event with several, the newest open one is meant, or
// else the newest.
func DeadLetter(ctx context.Context, o *dlq.Outbox, p DetailParams) (DeadLetterDetail, error) {
	if err := p.Check(); err != nil {
		return DeadLetterDetail{}, err
	}
	entry, err := o.DeadLetter(ctx, p.ID)
	if err != nil {
		return DeadLetterDetail{}, err
	}
	d := DeadLetterDetail{Entry: entry}
	if d.Event, err = o.Event(ctx, d.EventID); err != nil {
		return DeadLetterDetail{}, err
	}
	// The dead letter has enough of the event to find what surrounded it when the event's row is gone.
	about := outbox.Event{ID: d.EventID, AggregateType: d.AggregateType, AggregateID: d.AggregateID, CreatedAt: d.FailedAt}
	if d.EventCreatedAt != nil {
		about.CreatedAt = *d.EventCreatedAt
	}
	if d.Surroundings, err = surroundings(ctx, o, d.Event, about, p.Consumers); err != nil {
		return DeadLetterDetail{}, err
	}
	err = d.addContent(p, func() (outbox.Content, error) { return o.Content(ctx, d.ID) })
	return d, err
}

// Check reports what is wrong with the params, before anything is opened, and makes the id
// canonical.
func (p *DetailParams) Check() (err error) {
	if p.ID, err = outbox.ParseID(p.ID); err != nil {
		return err
	}
	return idem.CheckConsumers(p.Consumers)
}

// surroundings gathers what belongs to the event about. row is its row as it is now, nil when it is
// gone.
func surroundings(ctx context.Context, o *dlq.Outbox, row *outbox.Event, about outbox.Event, names []string) (s Surroundings, err error) {
	deaths, err := o.Deaths(ctx, about.ID)
	if err != nil {
		return s, err
	}
	audit, err := o.EventAudit(ctx, about.ID)
	if err != nil {
		return s, err
	}
	s.History = dlq.History(row, deaths, audit)
	s.Neighbours, err = o.Neighbours(ctx, about.AggregateType, about.AggregateID, about.ID, about.CreatedAt, detailNeighbours)
	if err != nil {
		return s, err
	}
	if s.Failures, err = consumers.Failures(ctx, o.DB, consumers.FailuresParams{EventIDs: []string{about.ID}}); err != nil {
		return s, err
	}
	bounded, cancel := context.WithTimeout(ctx, detailRedisTimeout)
	defer cancel()
	if s.Consumers, err = o.MarksOf(bounded, about.ID, names); err != nil {
		s.Consumers, s.ConsumersError = []idem.Mark{}, safetext.Redact(err.Error())
	}
	return s, nil
}

func (s *Surroundings) addContent(p DetailParams, read func() (outbox.Content, error)) error {
	if !p.Payload {
		return nil
	}
	content, err := read()
	if err != nil {
		return err
	}
	s.Payload, s.Headers = content.Payload, content.Headers
	return nil
}
