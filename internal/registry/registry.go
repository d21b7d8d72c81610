package registry

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Where a catalogue can come from, besides a file.
const (
	PackFinderz = "packfinderz"
	Database    = "database"
)

// Registry is the catalogue that this process works with.
type Registry struct {
	*catalogue.Catalogue
	// Source is PackFinderz, Database or the name of a file.
	Source string
	// Recording is what the database said, where it was asked.
	Recording catalogue.Recording
}

// New returns the built-in catalogue.
func New() *Registry { return &Registry{Catalogue: catalogue.PackFinderz(), Source: PackFinderz} }

// File reads a catalogue from a YAML file. Its schemas cannot leave the file's folder, not by a
// symbolic link either.
func File(name string) (_ *Registry, err error) {
	folder, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	read, err := catalogue.Load(folder.FS(), filepath.Base(name))
	if err != nil {
		return nil, err
	}
	return &Registry{Catalogue: read, Source: name}, nil
}

// Recorded returns what registry apply recorded in the database; one that recorded nothing, or was
// made by a program that could record nothing, has the built-in types.
func Recorded(ctx context.Context, db catalogue.DB) (*Registry, error) {
	recording, err := catalogue.Recorded(ctx, db)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == pgerrcode.UndefinedTable {
		return New(), nil
	}
	if err != nil {
		return nil, err
	}
	r := &Registry{Catalogue: recording.Catalogue, Source: Database, Recording: recording}
	if r.Catalogue == nil {
		r.Catalogue, r.Source = catalogue.PackFinderz(), PackFinderz
	}
	return r, nil
}

// EventTypes lists the name of every event type, in the catalogue's order.
func (r *Registry) EventTypes() []string {
	var names []string
	for _, t := range typesOf(r.Catalogue) {
		if !slices.Contains(names, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

// Names lists the names under which events are stored, former ones included.
func (r *Registry) Names() outbox.Names {
	var names outbox.Names
	for _, t := range typesOf(r.Catalogue) {
		for _, name := range append([]string{t.Name}, t.Was...) {
			names = append(names, outbox.Name{Namespace: t.namespace, Name: name, Type: t.Name,
				Topic: t.Topic})
		}
	}
	return names
}

// TopicOf returns the logical topic of an event type in a namespace; empty: the catalogue has no
// such type there.
func (r *Registry) TopicOf(namespace, eventType string) string {
	t, _ := r.Find(namespace, eventType)
	return t.Topic
}

// TopicNames lists every logical topic once, in the catalogue's order.
func (r *Registry) TopicNames() []string { return r.Names().Topics() }

// Aggregates lists every aggregate type once, in the catalogue's order.
func (r *Registry) Aggregates() []string {
	var names []string
	for _, t := range typesOf(r.Catalogue) {
		if !slices.Contains(names, t.Aggregate) && t.Aggregate != catalogue.None {
			names = append(names, t.Aggregate)
		}
	}
	return names
}
