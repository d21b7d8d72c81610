package idem

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Mark is what is known about one event and one consumer.
type Mark struct {
	EventID  string `json:"eventId"`
	Consumer string `json:"consumer"`
	// State is what Redis knows: unknown, processing or processed.
	State string `json:"state"`
	// Since is when the state was entered; nil when Redis knows nothing.
	Since *time.Time `json:"since"`
	// ExpiresIn and ExpiresAt tell when Redis forgets it.
	ExpiresIn string     `json:"expiresIn,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// Owner is the worker that wrote the key.
	Owner string `json:"owner,omitempty"`
	// InboxAt is when the effect was committed, if the consumer keeps an inbox in the database.
	InboxAt *time.Time `json:"inboxAt,omitempty"`
	// Key is the key in Redis.
	Key string `json:"key"`
}

// MarksParams describes which marks to read.
type MarksParams struct {
	// ID is an event's or a dead letter's. Without a database it is taken for an event's.
	ID string
	// Consumers are the names to ask about; empty: every consumer that is known.
	Consumers []string
}

// Check reports what is wrong with the params, before anything is opened, and makes the id
// canonical.
func (p *MarksParams) Check() (err error) {
	if p.ID, err = outbox.ParseID(p.ID); err != nil {
		return err
	}
	return CheckConsumers(p.Consumers)
}

// Marks reads what the consumers remember of an event, in Redis and, where there is a database, in
// the inbox.
func (o *Outbox) Marks(ctx context.Context, p MarksParams) ([]Mark, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	id, err := o.EventID(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	return o.MarksOf(ctx, id, p.Consumers)
}

// CheckConsumers refuses what is no consumer's name.
func CheckConsumers(names []string) error {
	for _, name := range names {
		if err := consume.ValidateConsumer(name); err != nil {
			return fault.As(fault.Usage, err)
		}
	}
	return nil
}

// MarksOf reads the marks of an event: of the named consumers, in the order given, or else of all
// that are known, in the order of their names.
func (o *Outbox) MarksOf(ctx context.Context, eventID string, names []string) ([]Mark, error) {
	id, err := uuid.Parse(eventID)
	if err != nil {
		return nil, err
	}
	if o.Keeper == nil {
		return nil, ErrNoRedis()
	}
	if len(names) == 0 {
		if names, err = o.knownConsumers(ctx); err != nil {
			return nil, err
		}
	}
	entries, err := o.Keeper.LookupMany(ctx, names, []uuid.UUID{id})
	if err != nil {
		return nil, redisError(err)
	}
	inbox, err := o.inboxTimes(ctx, eventID, names)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	marks := make([]Mark, len(entries))
	for i, e := range entries {
		m := Mark{EventID: eventID, Consumer: e.Consumer, State: string(e.State), Owner: e.Owner,
			Key: consume.Key(e.Consumer, id)}
		if !e.Since.IsZero() {
			m.Since = &e.Since
		}
		if e.ExpiresIn > 0 {
			at := now.Add(e.ExpiresIn).UTC().Truncate(time.Millisecond)
			m.ExpiresIn, m.ExpiresAt = e.ExpiresIn.String(), &at
		}
		if at, found := inbox[e.Consumer]; found {
			m.InboxAt = &at
		}
		marks[i] = m
	}
	return marks, nil
}

// selectInboxConsumers walks the distinct consumers of the inbox by its primary key, one index
// probe each.
const selectInboxConsumers = `
WITH RECURSIVE c AS (
    (SELECT consumer FROM inbox_events ORDER BY consumer LIMIT 1)
    UNION ALL
    SELECT (SELECT i.consumer FROM inbox_events AS i WHERE i.consumer > c.consumer ORDER BY i.consumer LIMIT 1)
      FROM c WHERE c.consumer IS NOT NULL)
SELECT consumer FROM c WHERE consumer IS NOT NULL`

// knownConsumers returns the names that announced themselves in Redis or wrote an inbox row.
func (o *Outbox) knownConsumers(ctx context.Context) ([]string, error) {
	names, err := o.Keeper.Consumers(ctx)
	if err != nil {
		return nil, redisError(err)
	}
	if o.DB != nil {
		inbox, err := o.InboxConsumers(ctx)
		if err != nil {
			return nil, err
		}
		names = append(names, inbox...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// InboxConsumers returns the names of the consumers that wrote an inbox row.
func (o *Outbox) InboxConsumers(ctx context.Context) ([]string, error) {
	return outbox.Column[string](ctx, o.DB, "read the inbox", selectInboxConsumers)
}

// selectInbox reads what the database knows about an event, by primary key.
const selectInbox = `SELECT consumer, processed_at FROM inbox_events WHERE event_id = $1::uuid AND consumer = ANY ($2::text[])`

// inboxTimes returns when each of the consumers committed the event's effect.
func (o *Outbox) inboxTimes(ctx context.Context, eventID string,
	names []string) (map[string]time.Time, error) {
	found := map[string]time.Time{}
	if o.DB == nil {
		return found, nil
	}
	var name string
	var at time.Time
	return found, outbox.Each(ctx, o.DB, "read the inbox", selectInbox, []any{eventID, names}, []any{&name, &at}, func() {
		found[name] = at.UTC()
	})
}

// redisError returns err as a precondition, with where to look.
func redisError(err error) error {
	return fault.Hint(fault.Preconditionf("ask Redis: %w", fault.Address("redis.url", err)),
		"outboxctl config view shows where redis.url comes from; outboxctl dev starts a local stack")
}

// ErrNoRedis means that no Redis is configured.
func ErrNoRedis() error {
	return fault.Hint(fault.Usagef("redis.url is not set"),
		"outboxctl config view shows what is set; outboxctl dev starts a local stack")
}

// Outbox is an installation with what its consumers remember.
type Outbox struct {
	outbox.Outbox
	// Keeper reads the consumers' marks in Redis; nil when no Redis is configured.
	Keeper *Keeper
}
