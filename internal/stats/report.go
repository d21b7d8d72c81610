package stats

import (
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// Report is the state of the outbox at one moment.
type Report struct {
	At time.Time `json:"at"`

	// Backlog counts the events that are neither published nor dead nor parked nor scheduled; it is
	// the sum of Due, BackingOff and InFlight.
	Backlog    int64 `json:"backlog"`
	Due        int64 `json:"due"`
	BackingOff int64 `json:"backingOff"`
	InFlight   int64 `json:"inFlight"`
	// Scheduled counts the events that wait for their time, and BehindScheduled those that wait behind
	// them in their ordering keys: no backlog either.
	Scheduled       int64 `json:"scheduled"`
	BehindScheduled int64 `json:"behindScheduled"`
	// Parked counts the events that wait behind a dead one of their ordering key, and BlockedKeys the
	// keys with such a one. They go on when it is replayed or discarded.
	Parked         int64      `json:"parked"`
	BlockedKeys    int64      `json:"blockedKeys"`
	OldestParkedAt *time.Time `json:"oldestParkedAt"`
	// Dead counts the dead events by their dead letters, open or discarded.
	Dead int64 `json:"dead"`
	// AtMaxAttempts counts the events that have no attempts left: those that wait, and the open dead
	// letters of those that died of it. One that was discarded asks for nothing any more.
	AtMaxAttempts int64 `json:"atMaxAttempts"`

	OldestUnpublishedAt *time.Time `json:"oldestUnpublishedAt"`
	OldestAgeSeconds    float64    `json:"oldestAgeSeconds"`

	Published Published `json:"published"`
	Flow      Flow      `json:"flow"`
	DLQ       DLQ       `json:"dlq"`

	Publishers []dispatch.Peer `json:"publishers"`
	// Gone are publishers that send no heartbeat any more and have not left, or hold leases still.
	Gone   []dispatch.Peer `json:"gone"`
	Topics []TopicState    `json:"topics"`
	// Stranded are event types of which events wait although no live publisher takes them.
	Stranded []StrandedType `json:"stranded"`
	// Pauses is what operators have paused, and how much that holds back.
	Pauses []outbox.HeldPause `json:"pauses"`
	// Consumers are those that the database knows.
	Consumers []Consumer `json:"consumers"`
	Groups    []Group    `json:"groups,omitempty"`
	// Dependencies has "ok" or the reason for each probe; the report needs none of them.
	Dependencies map[string]string `json:"dependencies,omitempty"`
}

// Published counts what was published lately and is still in the table.
type Published struct {
	Last1m int64 `json:"last1m"`
	Last5m int64 `json:"last5m"`
	Last1h int64 `json:"last1h"`
	// CountedSince is set when a cleanup has removed events of the last hour: what was published
	// before is not in the counts.
	CountedSince *time.Time `json:"countedSince"`
}

// The states of a Flow.
const (
	FlowDrained      = "drained"
	FlowKeepingUp    = "keeping_up" // what waits is a few seconds old at most
	FlowShrinking    = "shrinking"
	FlowNotShrinking = "not_shrinking"
)

// Flow compares what joined the backlog with what left it, published or dead, during the last
// minute.
type Flow struct {
	State            string  `json:"state"`
	ArrivalPerSecond float64 `json:"arrivalPerSecond"`
	DrainPerSecond   float64 `json:"drainPerSecond"`
	// ETASeconds is the time until the backlog is gone at this pace; nil when it does not shrink.
	ETASeconds *float64 `json:"etaSeconds"`
}

// Forecast says what becomes of the backlog at this pace.
func (f Flow) Forecast() string {
	switch f.State {
	case FlowDrained:
		return "drained"
	case FlowKeepingUp:
		return "keeping up"
	case FlowShrinking:
		return "drained in about " + words.Seconds(*f.ETASeconds)
	default:
		return "the backlog does not shrink"
	}
}

// DLQ counts the open dead letters.
type DLQ struct {
	Open     int64            `json:"open"`
	ByReason map[string]int64 `json:"byReason"`
}

// TopicState is a topic that a live publisher does not publish to at the moment.
type TopicState struct {
	Topic     string `json:"topic"`
	State     string `json:"state"`
	Publisher string `json:"publisher"`
	// Since is when it was last published to, by the publisher's clock.
	Since time.Time `json:"since"`
	Error string    `json:"error,omitempty"`
}

// OutageSeconds is how long the topic has not been published to, at least a second: the publisher
// that tells has another clock than the database.
func (t TopicState) OutageSeconds(at time.Time) float64 {
	if t.Since.IsZero() {
		return 1
	}
	return max(at.Sub(t.Since).Seconds(), 1)
}

// StrandedType is an event type of which events wait that every live publisher leaves to others.
type StrandedType struct {
	Namespace string    `json:"namespace"`
	EventType string    `json:"eventType"`
	Events    int64     `json:"events"`
	OldestAt  time.Time `json:"oldestAt"`
	// Told: a publisher that knows the type was told to take something else.
	Told bool `json:"-"`
}

// Name names the type for people, with its namespace unless that is the usual one.
func (s StrandedType) Name() string {
	if s.Namespace == outbox.DefaultNamespace {
		return s.EventType
	}
	return s.EventType + " of namespace " + s.Namespace
}

// String describes what waits because every publisher leaves it to others.
func (s StrandedType) String() string {
	return fmt.Sprintf("no publisher takes %s: %s left waiting", safetext.Line(safetext.Cut(s.Name(), 80)), words.Counted(s.Events, "event"))
}

// Group is the part of the backlog that shares one value of the chosen dimension.
type Group struct {
	Key                 string     `json:"key"`
	Backlog             int64      `json:"backlog"`
	Due                 int64      `json:"due"`
	BackingOff          int64      `json:"backingOff"`
	InFlight            int64      `json:"inFlight"`
	Scheduled           int64      `json:"scheduled"`
	Parked              int64      `json:"parked"`
	AtMaxAttempts       int64      `json:"atMaxAttempts"`
	DLQOpen             int64      `json:"dlqOpen"`
	OldestUnpublishedAt *time.Time `json:"oldestUnpublishedAt"`
}
