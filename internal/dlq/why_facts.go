package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// aheadBound is where counting the rows before an event stops: "more than that"
// says enough.
const aheadBound = 10_000

// Facts is what is known about where an event is.
type Facts struct {
	EventID string
	Now     time.Time // the database's
	Event   *Event    // nil: its row is not there
	Deaths  []Entry
	Audit   []AuditRow
	// Topic is the logical topic of the event's type; empty when nobody knows.
	Topic string
	// MaxAttempts holds unless the event has its own.
	MaxAttempts int
	// Ahead counts the due events before it, up to aheadBound.
	Ahead int64
	// PublishersKnown: the database keeps a list of publishers.
	PublishersKnown bool
	Publishers      []PublisherInfo
	// Cleanup is the newest one that removed published events; its zero value: none did.
	CleanupAt, CleanupOlderThan time.Time
	// MadeAt is when the event's id was made; zero when the id does not say.
	MadeAt time.Time
}

// PublisherInfo is one publisher as it describes itself.
type PublisherInfo struct {
	ID         string
	Host       string
	PID        int
	Alive      bool
	LastSeenAt time.Time
	Topics     []TopicInfo
}

// TopicInfo is a topic as a publisher sees it.
type TopicInfo struct {
	Topic string    `json:"topic"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

// topicFlows is the state of a topic that nothing is wrong with.
const topicFlows = "healthy"

// Facts gathers what is known about the event behind id.
func (s *Store) Facts(ctx context.Context, id string, resolve func(eventType string) (topic string)) (Facts, error) {
	var f Facts
	var err error
	if f.Now, err = s.Now(ctx); err != nil {
		return f, err
	}
	if f.EventID, err = s.EventID(ctx, id); err != nil {
		return f, err
	}
	event, err := s.Event(ctx, f.EventID)
	switch {
	case err == nil:
		f.Event, f.Topic = &event, resolve(event.EventType)
	case !errors.Is(err, ErrNotFound):
		return f, err
	}
	if f.Deaths, err = s.Deaths(ctx, f.EventID); err != nil {
		return f, err
	}
	if f.Audit, err = s.EventAudit(ctx, f.EventID); err != nil {
		return f, err
	}
	if f.Event == nil {
		return f, s.absence(ctx, &f)
	}
	if f.Event.Status == StatusPending || f.Event.Status == StatusProcessing {
		return f, s.queue(ctx, &f)
	}
	return f, nil
}

// absence looks for a reason why an event's row is not there.
func (s *Store) absence(ctx context.Context, f *Facts) error {
	if id, err := uuid.Parse(f.EventID); err == nil && id.Version() == 7 {
		sec, nsec := id.Time().UnixTime()
		f.MadeAt = time.Unix(sec, nsec).UTC()
	}
	err := s.db.QueryRow(ctx, selectLastCleanup).Scan(&f.CleanupAt, &f.CleanupOlderThan)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("look for a cleanup: %w", err)
	}
	return nil
}

// queue looks at what stands between a waiting event and its publication.
func (s *Store) queue(ctx context.Context, f *Facts) error {
	if err := s.db.QueryRow(ctx, countAhead, f.Event.Seq, aheadBound).Scan(&f.Ahead); err != nil {
		return fmt.Errorf("count what waits before the event: %w", err)
	}
	if err := s.db.QueryRow(ctx, hasPublishers).Scan(&f.PublishersKnown); err != nil {
		return fmt.Errorf("look for publishers: %w", err)
	}
	if !f.PublishersKnown {
		return nil
	}
	publishers, err := collect(ctx, s.db, func(row pgx.CollectableRow) (PublisherInfo, error) {
		var p PublisherInfo
		var state string
		if err := row.Scan(&p.ID, &p.Host, &p.PID, &p.Alive, &p.LastSeenAt, &state); err != nil {
			return p, err
		}
		var doc struct {
			Topics []TopicInfo `json:"topics"`
		}
		// A publisher of another version may describe itself otherwise; its being there still counts.
		if json.Unmarshal([]byte(state), &doc) == nil {
			p.Topics = doc.Topics
		}
		return p, nil
	}, selectPublishers)
	if err != nil {
		return fmt.Errorf("read publishers: %w", err)
	}
	f.Publishers = publishers
	return nil
}

// publisher finds the publisher that holds a lease.
func (f Facts) publisher(id string) *PublisherInfo {
	for i := range f.Publishers {
		if f.Publishers[i].ID == id {
			return &f.Publishers[i]
		}
	}
	return nil
}

// paused finds a live publisher that does not publish to the event's topic.
func (f Facts) paused() (PublisherInfo, TopicInfo, bool) {
	for _, p := range f.Publishers {
		for _, t := range p.Topics {
			if p.Alive && t.Topic == f.Topic && t.State != topicFlows {
				return p, t, true
			}
		}
	}
	return PublisherInfo{}, TopicInfo{}, false
}

func (f Facts) alive() (n int) {
	for _, p := range f.Publishers {
		if p.Alive {
			n++
		}
	}
	return n
}
