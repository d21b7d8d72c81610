// Package history is what a torture run leaves behind: a file of JSON lines, one observation each,
// from which every invariant can be checked afterwards without any of the servers.
//
// All times are on the harness's clock. Times the database gave are converted when they are
// recorded, because the database of a run may live ten minutes in the past.
package history

import "time"

// History is one run, sorted into kinds. Within a kind the order is that of the file.
type History struct {
	Run          Run
	Transactions []Transaction
	Arrivals     []Arrival
	Faults       []Fault
	Processes    []Process
	Commands     []Command
	Handled      []Handled
	Effects      []Effect
	Changes      []Change
	Removed      []Row
	Rows         []Row
	Ledger       []LedgerRow
	Letters      []Letter
	Audits       []Audit
	Stats        []Stats
	Resources    []Resource
}

// Run describes what was asked for, and when things happened.
type Run struct {
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"duration"`
	Rate     int           `json:"rate"` // events per second asked for
	// Lease of the publishers, and the age cleanup was allowed to remove.
	Lease      time.Duration `json:"lease"`
	CleanupAge time.Duration `json:"cleanupAge"`
	// MaxInFlight bounds the rows one publisher holds.
	MaxInFlight int `json:"maxInFlight"`
	// ClockSkew is how far the database's clock is ahead of all others.
	ClockSkew time.Duration `json:"clockSkew"`
	// Started, LastFault and Ended: producers run from Started; after LastFault nothing is injected
	// any more and producers have stopped; at Ended the final state was read.
	Started   time.Time `json:"started"`
	LastFault time.Time `json:"lastFault"`
	Ended     time.Time `json:"ended"`
	// Demands a valid run meets.
	MinEvents int `json:"minEvents"`
	MinFaults int `json:"minFaults"`
	// MinOrder is what must have happened to ordering keys, by its name in the figures.
	MinOrder map[string]int `json:"minOrder,omitempty"`
	// LooseKeys begin the ordering keys whose producers do not lock what they emit for: their events
	// have no order.
	LooseKeys    string   `json:"looseKeys,omitempty"`
	NeedFaults   []string `json:"needFaults"`   // kinds of fault that must have been injected
	NeedCrashes  []string `json:"needCrashes"`  // failpoints a process must have died in
	Consumers    []string `json:"consumers"`    // every one of them must have every event of HandledTypes
	HandledTypes []string `json:"handledTypes"` // event types the consumers act on
	InboxGuarded []string `json:"inboxGuarded"` // consumers whose effects are counted by the table itself
}

// Outcome of a producer's transaction as the producer saw it.
type Outcome string

const (
	Committed  Outcome = "committed"   // the server acknowledged the commit
	RolledBack Outcome = "rolled_back" // the producer rolled back, or the commit cannot have been sent
	Unknown    Outcome = "unknown"     // the connection ended with the commit under way
)

// Expectation is what must become of an event once it is committed.
type Expectation string

const (
	Deliver Expectation = "deliver" // published
	Die     Expectation = "die"     // a dead letter, open at the end, whatever operators did meanwhile
	Retract Expectation = "retract" // rolled back to a savepoint: never seen, though its transaction may commit
)

// Intent is one event a producer meant to emit.
type Intent struct {
	EventID string      `json:"eventId"`
	Type    string      `json:"type"`
	Topic   string      `json:"topic"`
	Expect  Expectation `json:"expect"`
	// Line identifies an event whose id the producer does not choose (emit --stdin); the ledger names
	// it too.
	Line string `json:"line,omitempty"`
}

// Transaction is what one producer did.
type Transaction struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Ended   time.Time `json:"ended"`
	Outcome Outcome   `json:"outcome"`
	// How it was treated: plain, late, rollback, savepoint, cut_commit, killed, cli.
	How    string   `json:"how"`
	Events []Intent `json:"events"`
}

// Arrival is one message of one Publish request that reached the broker.
type Arrival struct {
	At        time.Time `json:"at"`       // the request arrived
	Answered  time.Time `json:"answered"` // the reply was handed to the transport
	Request   int       `json:"request"`
	EventID   string    `json:"eventId"`
	Topic     string    `json:"topic"`
	Stored    bool      `json:"stored"`
	MessageID string    `json:"messageId,omitempty"`
	Code      string    `json:"code,omitempty"` // gRPC code of the reply; empty for OK
	ReplyLost bool      `json:"replyLost,omitempty"`
	// Order counts what the broker has stored, in the order in which it did.
	Order       int64             `json:"order,omitempty"`
	OrderingKey string            `json:"orderingKey,omitempty"`
	Data        string            `json:"data,omitempty"` // the stored bytes
	Attributes  map[string]string `json:"attributes,omitempty"`
}

// Fault is something the harness did to the system.
type Fault struct {
	Kind   string    `json:"kind"`
	Target string    `json:"target,omitempty"`
	Detail string    `json:"detail,omitempty"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"` // when the system was left alone again
	// Failed is why the fault could not be injected; such a fault does not count.
	Failed string `json:"failed,omitempty"`
}

// Process is the start or the end of a process under test.
type Process struct {
	At    time.Time `json:"at"`
	Name  string    `json:"name"`
	PID   int       `json:"pid"`
	Event string    `json:"event"` // started, exited
	// Exit is how it ended: a code, or the signal's name. Failpoint is the one it was started with, if
	// any.
	Exit      string `json:"exit,omitempty"`
	Failpoint string `json:"failpoint,omitempty"`
	// Unexpected ends are those that were not asked for: neither a signal of the harness nor a
	// failpoint.
	Unexpected bool `json:"unexpected,omitempty"`
}

// Command is what an operator ran.
type Command struct {
	At        time.Time `json:"at"`
	Ended     time.Time `json:"ended"`
	Verb      string    `json:"verb"` // stats, dlq list, dlq replay, dlq discard, dlq restore, cleanup, migrate
	Args      []string  `json:"args"`
	Exit      int       `json:"exit"` // -1 when a signal ended it
	Failpoint string    `json:"failpoint,omitempty"`
	Stdout    string    `json:"stdout,omitempty"`
	Stderr    string    `json:"stderr,omitempty"`
}

// Handled is one run of a handler; Effect what is left of all of them.
type Handled struct {
	At       time.Time `json:"at"`
	Consumer string    `json:"consumer"`
	EventID  string    `json:"eventId"`
}

// Effect is a row of the consumers' database, which no fault ever touches.
type Effect struct {
	Consumer string `json:"consumer"`
	EventID  string `json:"eventId"`
	Count    int    `json:"count"`
}

// Lease is who holds a row until when; the zero value is no publisher.
type Lease struct {
	By    string    `json:"by,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

// State is the mutable part of a row.
type State struct {
	Lease     Lease     `json:"lease"`
	Attempts  int       `json:"attempts"`
	LastError string    `json:"lastError,omitempty"`
	Published time.Time `json:"published,omitzero"`
	Dead      time.Time `json:"dead,omitzero"`
	Next      time.Time `json:"next,omitzero"`
	MessageID string    `json:"messageId,omitempty"`
	// Passed is when the row was discarded, so that its ordering key goes on.
	Passed time.Time `json:"passed,omitzero"`
}

// Change is one UPDATE or DELETE of an outbox row, recorded by a trigger in its own transaction.
type Change struct {
	At time.Time `json:"at"`
	// Seq orders the changes of one event: a row's changes are serialised by its lock.
	Seq     int64  `json:"seq"`
	TxID    int64  `json:"txId"`
	EventID string `json:"eventId"`
	// By is the application_name of the connection: publisher-1, operator, …
	By      string `json:"by"`
	Deleted bool   `json:"deleted,omitempty"`
	Before  State  `json:"before"`
	After   State  `json:"after"`
}

// Row is an outbox row: at the end, or, in Removed, at the moment it was deleted.
type Row struct {
	EventID       string            `json:"eventId"`
	Seq           int64             `json:"seq"`
	Type          string            `json:"type"`
	AggregateType string            `json:"aggregateType"`
	AggregateID   string            `json:"aggregateId"`
	Payload       string            `json:"payload"` // payload_json::text
	Headers       map[string]string `json:"headers,omitempty"`
	Namespace     string            `json:"namespace"`
	TenantID      string            `json:"tenantId,omitempty"`
	DedupeKey     string            `json:"dedupeKey,omitempty"`
	OrderingKey   string            `json:"orderingKey,omitempty"`
	// CreatedAt is the attribute's text, by the database's own clock.
	CreatedAt string    `json:"createdAt"`
	State     State     `json:"state"`
	RemovedAt time.Time `json:"removedAt,omitzero"`
}

// LedgerRow is the truth: written in the producer's transaction beside the event.
type LedgerRow struct {
	TxID    string `json:"txId"` // Transaction.ID
	EventID string `json:"eventId,omitempty"`
	Line    string `json:"line,omitempty"`
	// Payload is what the producer meant to say, as compact JSON of the envelope's data.
	Data string `json:"data,omitempty"`
}

// Letter is a dead letter at the end.
type Letter struct {
	ID       string    `json:"id"`
	EventID  string    `json:"eventId"`
	Reason   string    `json:"reason"`
	State    string    `json:"state"`
	Attempts int       `json:"attempts"`
	FailedAt time.Time `json:"failedAt"`
	Error    string    `json:"error"`
	Payload  string    `json:"payload"`
}

// Audit is an audit row at the end.
type Audit struct {
	ID       int64          `json:"id"`
	At       time.Time      `json:"at"`
	Actor    string         `json:"actor"`
	Action   string         `json:"action"`
	Note     string         `json:"note"`
	Affected int64          `json:"affected"`
	Detail   map[string]any `json:"detail,omitempty"`
}

// Stats is what the stats command said at the end beside the same figures counted from the tables.
type Stats struct {
	Said  map[string]int64 `json:"said"`
	Truth map[string]int64 `json:"truth"`
}

// Resource is a gauge of a process (goroutines, open files) or of the database (connections), early
// in the process's life and at the end.
type Resource struct {
	Name  string `json:"name"`
	First int    `json:"first"`
	Last  int    `json:"last"`
	// Slack is how much Last may exceed First.
	Slack int `json:"slack"`
}
