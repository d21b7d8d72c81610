package consume

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

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

// State is what Redis knows about one consumer and event.
type State string

const (
	// StateUnknown means there is no key: never seen, aborted, or expired.
	StateUnknown State = "unknown"
	// StateProcessing means a handler holds the lease.
	StateProcessing State = "processing"
	// StateProcessed means the effect happened.
	StateProcessed State = "processed"
)

const (
	leasePrefix = "processing:"
	donePrefix  = "done:"
)

// encodeValue returns "<state>:<token>:<unix ms>:<owner>", so that a GET in
// redis-cli shows who holds an event and since when.
func encodeValue(prefix, token, owner string) string {
	return prefix + token + ":" + strconv.FormatInt(time.Now().UnixMilli(), 10) + ":" + owner
}

// ParseValue decodes a key's value: the state, when it was entered by the worker's clock, and the
// worker. Every value that is not a lease counts as processed: a key written with plain SETNX by an
// older consumer keeps its meaning. Time and owner are zero in such a value.
func ParseValue(v string) (state State, since time.Time, owner string) {
	state = StateProcessed
	rest, ours := strings.CutPrefix(v, leasePrefix)
	if ours {
		state = StateProcessing
	} else if rest, ours = strings.CutPrefix(v, donePrefix); !ours {
		return state, time.Time{}, ""
	}
	parts := strings.SplitN(rest, ":", 3)
	if len(parts) != 3 {
		return state, time.Time{}, ""
	}
	if ms, err := strconv.ParseInt(parts[1], 10, 64); err == nil {
		since = time.UnixMilli(ms).UTC()
	}
	return state, since, parts[2]
}
