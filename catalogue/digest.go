package catalogue

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Applied is who recorded the type as it is now, and when. It is empty for a type that was not read
// from a database.
func (t Type) Applied() (by string, at time.Time) {
	at, err := time.Parse(time.RFC3339Nano, t.appliedAt)
	if err != nil {
		return "", time.Time{}
	}
	return t.appliedBy, at
}

// Digest is the same for types of which the same is said. Descriptions say nothing: they decide
// about no event.
func (t Type) Digest() string {
	if t.digest != "" {
		return t.digest
	}
	text, err := canonical(t)
	if err != nil {
		return "" // texts always encode
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
