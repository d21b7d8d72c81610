package wire

import (
	"errors"

	"github.com/google/uuid"
)

// ErrNotID reports a text that is not a UUID. It reads after a field's name.
var ErrNotID = errors.New("must be a uuid, and not the nil uuid")

// ParseID reads a UUID in its canonical form. Other spellings name the same id but
// do not compare equal as text, which is what attributes and keys are.
func ParseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 || id == uuid.Nil {
		return uuid.Nil, ErrNotID
	}
	return id, nil
}
