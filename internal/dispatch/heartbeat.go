package dispatch

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	heartbeatEvery   = 5 * time.Second
	heartbeatTimeout = 3 * time.Second
	// pruneAfter is when the row of a publisher that ended without removing it
	// is removed by another.
	pruneAfter = 10 * time.Minute
)

// Every beat rewrites the row whole, so one that an operator deleted, or that
// another publisher pruned while this one stood still, comes back.
const (
	beatSQL = `
INSERT INTO outbox_publishers (id, host, pid, version, started_at, last_seen_at, state)
VALUES ($1::text::uuid, $2, $3, $4, now(), now(), $5::text::jsonb)
ON CONFLICT (id) DO UPDATE SET last_seen_at = now(), state = excluded.state`

	leaveSQL = `DELETE FROM outbox_publishers WHERE id = $1::text::uuid`

	pruneSQL = `DELETE FROM outbox_publishers WHERE last_seen_at < now() - $1::bigint * interval '1 millisecond'`
)

// Execer runs one statement.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Identity names a publisher.
type Identity struct {
	ID      string
	Host    string
	PID     int
	Version string
}

// PublisherState is the column outbox_publishers.state.
type PublisherState struct {
	InFlight      int           `json:"inFlight"`
	InFlightBytes int64         `json:"inFlightBytes"`
	Published     int64         `json:"published"`
	Topics        []TopicReport `json:"topics"`
	// Takes is what it takes of all events.
	Takes Takes `json:"takes"`
	// Catalogue is what the publisher knows of event types.
	Catalogue *CatalogueReport `json:"catalogue,omitempty"`
}

// Takes is what a publisher was told to take; empty means all.
type Takes struct {
	Namespace  string   `json:"namespace,omitempty"`
	TenantID   string   `json:"tenantId,omitempty"`
	EventTypes []string `json:"eventTypes,omitempty"`
}

// CatalogueReport is a publisher's catalogue in PublisherState.
type CatalogueReport struct {
	// Source is packfinderz, database or the name of a file.
	Source string `json:"source"`
	// Revision is that of the database's catalogue when the publisher looked last.
	Revision int64 `json:"revision"`
	// Unknown are recorded types that the publisher does not claim because its catalogue lacks them,
	// StoodDown those that it leaves to others because an event did not fit what its own catalogue
	// says.
	Unknown   TypesIn `json:"unknown,omitempty"`
	StoodDown TypesIn `json:"stoodDown,omitempty"`
	// Other are the digests of the recorded types of which the publisher has another version, by
	// namespace and type.
	Other map[string]map[string]string `json:"other,omitempty"`
}

// Leaves reports whether the publisher leaves an event type to others. One that says nothing of its
// catalogue leaves none.
func (c *CatalogueReport) Leaves(namespace, eventType string) bool {
	return c != nil && (c.Unknown.Has(namespace, eventType) || c.StoodDown.Has(namespace, eventType))
}

// Left lists the event types that the publisher leaves to others in some namespace.
func (c *CatalogueReport) Left() (types []string) {
	if c == nil {
		return nil
	}
	return slices.Concat(slices.AppendSeq(slices.Collect(maps.Values(c.Unknown)), maps.Values(c.StoodDown))...)
}

// State is what this dispatcher reports of itself.
func (d *Dispatcher) State() PublisherState {
	rows, bytes := d.InFlight()
	topics := d.Topics()
	for i := range topics {
		topics[i].Since = topics[i].Since.UTC()
	}
	return PublisherState{InFlight: rows, InFlightBytes: bytes, Published: d.Totals().Published, Topics: topics}
}

// Heartbeat keeps the publisher's row in outbox_publishers. It is for people:
// publishing goes on without it.
type Heartbeat struct {
	DB       Execer
	Identity Identity
	State    func() PublisherState
	// Soon asks for a beat before the next is due: the state has changed in a way
	// that is waited for. May be nil.
	Soon    <-chan struct{}
	Observe Observer
}

// Run beats until ctx ends and then removes the row. The beat under way is
// waited for: the server may execute one that was given up after the removal,
// and the publisher would be listed as alive.
func (h *Heartbeat) Run(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for beats := 0; ; beats++ {
		state, _ := json.Marshal(h.State()) // strings and numbers always encode
		h.exec(lasting, beatSQL, h.Identity.ID, h.Identity.Host, h.Identity.PID, h.Identity.Version, string(state))
		if beats%int(pruneAfter/heartbeatEvery) == 0 {
			h.exec(ctx, pruneSQL, pruneAfter.Milliseconds())
		}
		select {
		case <-ticker.C:
		case <-h.Soon:
		case <-ctx.Done():
			h.exec(lasting, leaveSQL, h.Identity.ID)
			return
		}
	}
}

func (h *Heartbeat) exec(ctx context.Context, sql string, args ...any) {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	if _, err := h.DB.Exec(ctx, sql, args...); err != nil && ctx.Err() != context.Canceled {
		h.Observe.Trouble("heartbeat", err)
	}
}
