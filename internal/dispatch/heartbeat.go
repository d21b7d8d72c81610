package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/outbox"
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
	// Pauses are those that the publisher obeys, as outbox.Pause.Name writes them.
	Pauses []string `json:"pauses,omitempty"`
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
	// Source is builtin, database or the name of a file.
	Source string `json:"source"`
	// Revision is that of the database's catalogue when the publisher looked last.
	Revision int64 `json:"revision"`
	// Unknown are recorded types that the publisher does not claim because its catalogue lacks them, StoodDown those
	// that it leaves to others.
	Unknown   TypesIn `json:"unknown,omitempty"`
	StoodDown TypesIn `json:"stoodDown,omitempty"`
	// Other are the digests of the recorded types of which the publisher has another version, by namespace and type.
	Other map[string]map[string]string `json:"other,omitempty"`
}

// Leaves reports whether the publisher leaves an event type to others. One that says nothing of its catalogue leaves none.
func (c *CatalogueReport) Leaves(namespace, eventType string) bool {
	return c != nil && (c.Unknown.Has(namespace, eventType) || c.StoodDown.Has(namespace, eventType))
}

// TopicReport is one topic in PublisherState.
type TopicReport struct {
	Topic string     `json:"topic"`
	State TopicState `json:"state"`
	Since time.Time  `json:"since"`
	Code  string     `json:"code,omitempty"`
	Error string     `json:"error,omitempty"`
}

// State is what this dispatcher reports of itself.
func (d *Dispatcher) State() PublisherState {
	rows, bytes := d.InFlight()
	s := PublisherState{InFlight: rows, InFlightBytes: bytes, Published: d.totals.published.Load(), Topics: []TopicReport{}}
	for _, t := range d.Topics() {
		s.Topics = append(s.Topics, TopicReport{Topic: t.Topic, State: t.State, Since: t.Since.UTC(), Code: t.Code, Error: t.Error})
	}
	return s
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
		h.exec(lasting, beatSQL, h.Identity.ID, h.Identity.Host, h.Identity.PID, h.Identity.Version, h.state())
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

func (h *Heartbeat) state() string {
	text, err := json.Marshal(h.State())
	if err != nil {
		return "{}" // a struct of strings and numbers always encodes
	}
	return string(text)
}

func (h *Heartbeat) exec(ctx context.Context, sql string, args ...any) {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	if _, err := h.DB.Exec(ctx, sql, args...); err != nil && ctx.Err() != context.Canceled {
		h.Observe.Trouble("heartbeat", err)
	}
}

// Peer is one publisher, by its heartbeat and its leases.
type Peer struct {
	ID         string         `db:"id"`
	Host       string         `db:"host"`
	PID        int            `db:"pid"`
	Version    string         `db:"version"`
	StartedAt  *time.Time     `db:"started_at"`
	LastSeenAt *time.Time     `db:"last_seen_at"`
	Alive      bool           `db:"alive"`
	Raw        string         `db:"state"`
	State      PublisherState `db:"-"`
	// Leases is how many it has, over or not; Leased how many events these name, and OldestLease since when it has the first.
	Leases      int64      `db:"leases"`
	Leased      int64      `db:"leased"`
	OldestLease *time.Time `db:"oldest_lease"`
}

const selectPeers = `
SELECT coalesce(p.id, l.owner)::text AS id, coalesce(p.host, '') AS host, coalesce(p.pid, 0) AS pid, coalesce(p.version, '') AS version,
       p.started_at, p.last_seen_at, coalesce(p.last_seen_at > now() - $1::interval, false) AS alive, coalesce(p.state::text, '{}') AS state,
       coalesce(l.leases, 0) AS leases, coalesce(l.leased, 0) AS leased, l.oldest AS oldest_lease
  FROM outbox_publishers AS p
  FULL JOIN (SELECT owner, count(*) AS leases, sum(` + leaseRowsOf + `)::bigint AS leased, min(since) AS oldest
               FROM outbox_leases GROUP BY owner) AS l ON l.owner = p.id
 ORDER BY p.last_seen_at DESC NULLS LAST, l.oldest`

// Holders reads the heartbeats, the newest first, and behind them who holds leases without one.
func Holders(ctx context.Context, db outbox.Querier) ([]Peer, error) {
	rows, err := db.Query(ctx, selectPeers, outbox.AliveFor)
	if err != nil {
		return nil, fmt.Errorf("read publishers: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Peer])
	if err != nil {
		return nil, fmt.Errorf("read publishers: %w", err)
	}
	for i := range found {
		// A publisher of another version may describe itself otherwise; it still counts as one.
		if json.Unmarshal([]byte(found[i].Raw), &found[i].State) != nil {
			found[i].State = PublisherState{}
		}
	}
	return found, nil
}

// Peers reads the heartbeats, the newest first.
func Peers(ctx context.Context, db outbox.Querier) ([]Peer, error) {
	found, err := Holders(ctx, db)
	return slices.DeleteFunc(found, func(p Peer) bool { return p.LastSeenAt == nil }), err
}
