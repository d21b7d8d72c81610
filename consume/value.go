package consume

import (
	"strconv"
	"strings"
	"time"
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
