package consume

import (
	"fmt"
	"regexp"

	"github.com/google/uuid"
)

const (
	// KeyPrefix starts every key: pf:evt:processed:<consumer>:<event_id>.
	KeyPrefix = "pf:evt:processed:"

	// ConsumersKey is a sorted set of the consumers that have announced
	// themselves, scored by the time (Unix ms) of the last announcement. Without
	// it, finding the consumers of an event would mean reading every key.
	ConsumersKey = "pf:evt:consumers"
)

// A colon in a consumer name would let two consumers share a key; spaces and
// control characters would make keys that are hard to type.
var consumerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ValidateConsumer reports whether name can be part of a key.
func ValidateConsumer(name string) error {
	if !consumerName.MatchString(name) {
		return fmt.Errorf("%w %q: use 1 to 128 letters, digits, dots, dashes or underscores, starting with a letter or digit", ErrConsumerName, name)
	}
	return nil
}

// Key returns the Redis key of one consumer and event.
func Key(consumer string, eventID uuid.UUID) string {
	return KeyPrefix + consumer + ":" + eventID.String()
}
