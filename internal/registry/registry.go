package registry

import "github.com/outboxctl/outboxctl/emit/builtin"

// Registry is the catalogue that this process works with.
type Registry struct{ *builtin.Catalogue }

// New returns the built-in catalogue.
func New() *Registry { return &Registry{builtin.New()} }

// AggregateTypes lists the aggregate types that the database knows.
func AggregateTypes() []string { return builtin.AggregateTypes() }
