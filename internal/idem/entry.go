package idem

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

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

// Entry is one key, decoded.
type Entry struct {
	Consumer string
	EventID  uuid.UUID
	State    State
	// Since is when the state was entered, by the worker's clock. Zero when
	// the key was written by something else than this package.
	Since time.Time
	// Owner names the worker that wrote the key.
	Owner string
	// ExpiresIn is the rest of the lease or of the done mark; negative when the
	// key never expires.
	ExpiresIn time.Duration

	raw string
}

const (
	leasePrefix = "processing:"
	donePrefix  = "done:"
)

// Values read "<state>:<token>:<unix ms>:<owner>", so that a GET in redis-cli
// says who holds an event and since when.
func encodeValue(prefix, token string, at time.Time, owner string) string {
	return prefix + token + ":" + strconv.FormatInt(at.UnixMilli(), 10) + ":" + owner
}

// decodeValue treats every value that is not a lease as processed: a key
// written with plain SETNX by an older consumer must keep its meaning.
func decodeValue(v string) (state State, since time.Time, owner string) {
	state = StateProcessed
	rest, isLease := strings.CutPrefix(v, leasePrefix)
	if isLease {
		state = StateProcessing
	} else if rest, isLease = strings.CutPrefix(v, donePrefix); !isLease {
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
