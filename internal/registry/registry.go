package registry

import (
	"slices"

	"github.com/outboxctl/outboxctl/emit/builtin"
)

// Registry is the catalogue that this process works with: the built-in one.
type Registry struct{ builtin.Catalogue }

// New returns the catalogue.
func New() *Registry { return &Registry{} }

// EventTypes lists the name of every event type, in the catalogue's order.
func (r *Registry) EventTypes() []string {
	all := r.Types()
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Name
	}
	return names
}

// Topics lists every logical topic once, in the catalogue's order.
func (r *Registry) Topics() []string {
	var topics []string
	for _, t := range r.Types() {
		if !slices.Contains(topics, t.Topic) {
			topics = append(topics, t.Topic)
		}
	}
	return topics
}
