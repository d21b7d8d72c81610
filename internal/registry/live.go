package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Live is a running publisher's catalogue beside the one that the database recorded. It says for
// which event types the publisher may dead-letter events: those of which both say the same.
type Live struct {
	db catalogue.DB

	mu       sync.Mutex
	own      *Registry
	recorded *Registry
	// report is how the two compare.
	report dispatch.CatalogueReport
}

// NewLive returns the catalogue of a publisher, compared with what the database says now.
func NewLive(ctx context.Context, db catalogue.DB, own *Registry) (*Live, error) {
	recorded, err := Recorded(ctx, db)
	if err != nil {
		return nil, err
	}
	l := &Live{db: db}
	l.compare(own, recorded)
	return l, nil
}

// compare takes two catalogues and forgets from what the publisher stood down.
func (l *Live) compare(own, recorded *Registry) {
	l.own, l.recorded = own, recorded
	l.report = dispatch.CatalogueReport{
		Source: own.Source, Revision: recorded.Recording.Revision,
		Unknown: dispatch.TypesIn{}, StoodDown: dispatch.TypesIn{}, Other: map[string]map[string]string{},
	}
	if own == recorded {
		return
	}
	for _, t := range typesOf(recorded.Catalogue) {
		ours, known := own.Find(t.namespace, t.Name)
		switch {
		case known && ours.Digest() != t.Digest():
			if l.report.Other[t.namespace] == nil {
				l.report.Other[t.namespace] = map[string]string{}
			}
			l.report.Other[t.namespace][t.Name] = ours.Digest()
		case !known && !own.knows(t.namespace, t.Name):
			l.report.Unknown[t.namespace] = append(l.report.Unknown[t.namespace], t.Name)
		}
	}
}

// knows reports whether events of a type can be published in a namespace, or in any where all are
// meant.
func (r *Registry) knows(namespace, name string) bool {
	if namespace == catalogue.AllNamespaces {
		return slices.ContainsFunc(r.Names(), func(n outbox.Name) bool { return n.Name == name })
	}
	_, known := r.Find(namespace, name)
	return known
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
	l.compare(l.recorded, l.recorded)
	return l.own
}

// revisionSQL is asked every few seconds; the types are read again only when it has changed.
const revisionSQL = `SELECT revision FROM outbox_catalogue`

// Refresh implements dispatch.Authority: it looks whether the database's catalogue has changed.
func (l *Live) Refresh(ctx context.Context) error {
	var revision int64
	rows, err := l.db.Query(ctx, revisionSQL)
	if err == nil {
		revision, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	}
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
	l.compare(l.own, recorded)
	return nil
}

// Behind reports whether the database has recorded another catalogue since the publisher's own was
// read from it.
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

// Judges implements dispatch.Authority. Any publisher may dead-letter an event of an unknown type.
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
	if stood := l.report.StoodDown[namespace]; !slices.Contains(stood, eventType) {
		l.report.StoodDown[namespace] = append(stood, eventType)
	}
}

// Except implements dispatch.Authority.
func (l *Live) Except() map[string][]string {
	r := l.Report()
	for namespace, types := range r.StoodDown {
		r.Unknown[namespace] = append(r.Unknown[namespace], types...)
	}
	return r.Unknown
}

// Report is what the publisher tells about its catalogue now.
func (l *Live) Report() dispatch.CatalogueReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.report
	r.Unknown, r.StoodDown = copied(r.Unknown), copied(r.StoodDown)
	return r
}

func copied(types dispatch.TypesIn) dispatch.TypesIn {
	out := make(dispatch.TypesIn, len(types))
	for namespace, names := range types {
		out[namespace] = slices.Sorted(slices.Values(names))
	}
	return out
}
