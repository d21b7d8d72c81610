package idem

import (
	"fmt"
	"regexp"

	"github.com/google/uuid"
)

const (
	// KeyPrefix starts every key of the keeper: pf:evt:processed:<consumer>:<event_id>.
	KeyPrefix = "pf:evt:processed:"

	// consumersKey is a sorted set of the consumer names that have announced
	// themselves, scored by when they last did. Without it, "which consumers
	// have seen this event" would mean walking every key in the server.
	consumersKey = "pf:evt:consumers"
)

// A colon in a consumer name would let two consumers share a key; spaces and
// control characters would make keys nobody can type.
var consumerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ValidateConsumer says whether name can be part of a key.
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

func checkedKey(consumer string, eventID uuid.UUID) (string, error) {
	if err := ValidateConsumer(consumer); err != nil {
		return "", err
	}
	if eventID == uuid.Nil {
		return "", ErrEventID
	}
	return Key(consumer, eventID), nil
}
