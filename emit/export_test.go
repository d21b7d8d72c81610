package emit

import "github.com/google/uuid"

// WithIDs gives an emitter a source of ids.
func (e *Emitter) WithIDs(next func() (uuid.UUID, error)) *Emitter {
	e.newID = next
	return e
}
