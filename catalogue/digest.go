package catalogue

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest is the same for types of which the same is said. Descriptions say nothing: they decide about no event.
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
