package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/catalogue"
)

// Live is a running publisher's catalogue beside the one that the database recorded. It says for which event types the
// publisher may bury events: those of which both say the same.
type Live struct {
	db catalogue.DB

	mu       sync.Mutex
	own      *Registry
	recorded *Registry
	stood    map[typeKey]bool
}

type typeKey struct{ namespace, name string }

// Report is what a publisher tells about its catalogue.
type Report struct {
	Source string `json:"source"`
	// Revision is the one of the database that the publisher has seen last.
	Revision int64 `json:"revision"`
	// Unknown are recorded types that this publisher's catalogue lacks; StoodDown those that it leaves to others, because
	// an event did not fit what its own catalogue says.
	Unknown   []string `json:"unknown,omitempty"`
	StoodDown []string `json:"stoodDown,omitempty"`
}

// NewLive returns the catalogue of a publisher, compared with what the database says now.
func NewLive(ctx context.Context, db catalogue.DB, own *Registry) (*Live, error) {
	recorded, err := Recorded(ctx, db)
	if err != nil {
		return nil, err
	}
	return &Live{db: db, own: own, recorded: recorded, stood: map[typeKey]bool{}}, nil
}

// Own is the publisher's catalogue.
func (l *Live) Own() *Registry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own
}

// Follow makes the recorded catalogue, as it was read last, the publisher's own.
func (l *Live) Follow() *Registry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own, l.stood = l.recorded, map[typeKey]bool{}
	return l.own
}

// revisionSQL is asked with every heartbeat; the types are read again only when it has changed.
const revisionSQL = `SELECT revision FROM outbox_catalogue`

// Refresh implements dispatch.Authority: it looks whether the database's catalogue has changed.
func (l *Live) Refresh(ctx context.Context) error {
	rows, err := l.db.Query(ctx, revisionSQL)
	if err != nil {
		return fmt.Errorf("read the catalogue's revision: %w", err)
	}
	revision, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("read the catalogue's revision: %w", err)
	}
	if revision == l.revision() {
		return nil
	}
	recorded, err := Recorded(ctx, l.db)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorded, l.stood = recorded, map[typeKey]bool{}
	return nil
}

// Behind reports whether the database has recorded another catalogue since the publisher's own was read from it.
func (l *Live) Behind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recorded.Recording.Revision != l.own.Recording.Revision
}

func (l *Live) revision() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recorded.Recording.Revision
}

// Judges implements dispatch.Authority. A type that nobody knows is everybody's to bury.
func (l *Live) Judges(namespace, eventType string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	theirs, recorded := l.recorded.Find(namespace, eventType)
	ours, known := l.own.Find(namespace, eventType)
	return recorded == known && theirs.Digest() == ours.Digest()
}

// StandDown implements dispatch.Authority.
func (l *Live) StandDown(namespace, eventType string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stood[typeKey{namespace, eventType}] = true
}

// Except implements dispatch.Authority.
func (l *Live) Except() []string {
	r := l.Report()
	return append(r.Unknown, r.StoodDown...)
}

// Report is what the publisher tells about its catalogue now.
func (l *Live) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{Source: l.own.Source, Revision: l.recorded.Recording.Revision}
	if l.own.Source != Database || l.own.Recording.Revision != r.Revision {
		for _, name := range l.recorded.EventTypes() {
			if _, known := l.own.TopicOf(name); !known {
				r.Unknown = append(r.Unknown, name)
			}
		}
	}
	for k := range l.stood {
		if !slices.Contains(r.Unknown, k.name) && !slices.Contains(r.StoodDown, k.name) {
			r.StoodDown = append(r.StoodDown, k.name)
		}
	}
	slices.Sort(r.StoodDown)
	return r
}
