package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Peer is one publisher, by its heartbeat and its leases.
type Peer struct {
	ID string `db:"id" json:"id"`
	// Host, PID and Version are empty, StartedAt and LastSeenAt nil, for who holds leases and sends no
	// heartbeat.
	Host       string     `db:"host" json:"host"`
	PID        int        `db:"pid" json:"pid"`
	Version    string     `db:"version" json:"version"`
	Alive      bool       `db:"alive" json:"alive"`
	StartedAt  *time.Time `db:"started_at" json:"startedAt"`
	LastSeenAt *time.Time `db:"last_seen_at" json:"lastSeenAt"`
	// InFlight is what it said of itself in its last heartbeat. Leases is how many it has, over or
	// not, Leased how many events these name now.
	InFlight      int64      `db:"-" json:"inFlight"`
	Leases        int64      `db:"leases" json:"leases"`
	Leased        int64      `db:"leased" json:"leased"`
	OldestLeaseAt *time.Time `db:"oldest_lease" json:"oldestLeaseAt"`
	// Namespace, TenantID and EventTypes are what it takes; empty: all.
	Namespace  string   `db:"-" json:"namespace"`
	TenantID   string   `db:"-" json:"tenantId"`
	EventTypes []string `db:"-" json:"eventTypes"`
	// State is all that it said, as read from Raw.
	Raw   string         `db:"state" json:"-"`
	State PublisherState `db:"-" json:"-"`
}

// Takes is what the publisher takes, in words.
func (p Peer) Takes() string {
	if p.LastSeenAt == nil {
		return ""
	}
	return cmp.Or(p.State.Takes.String(), "everything")
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
	found, err := outbox.Rows[Peer](ctx, db, "read publishers", selectPeers, outbox.AliveFor)
	if err != nil {
		return nil, err
	}
	for i := range found {
		p := &found[i]
		// A publisher of another version may describe itself otherwise; it still counts as one.
		if json.Unmarshal([]byte(p.Raw), &p.State) != nil {
			p.State = PublisherState{}
		}
		takes := p.State.Takes
		p.InFlight, p.Namespace, p.TenantID, p.EventTypes = int64(p.State.InFlight), takes.Namespace, takes.TenantID, orEmpty(takes.EventTypes)
	}
	return found, nil
}

// Peers reads the heartbeats, the newest first.
func Peers(ctx context.Context, db outbox.Querier) ([]Peer, error) {
	found, err := Holders(ctx, db)
	return slices.DeleteFunc(found, func(p Peer) bool { return p.LastSeenAt == nil }), err
}

// Stranded reports whether none of the publishers that are alive takes an event, and whether one of
// them would that was told to take something else. names are those of the catalogue.
func Stranded(live []Peer, names outbox.Names, namespace, eventType, tenant string) (stranded, told bool) {
	for _, p := range live {
		knows := !p.State.Catalogue.Leaves(namespace, eventType)
		if t := p.State.Takes; knows && (t.Namespace == "" || t.Namespace == namespace) &&
			(t.TenantID == "" || strings.EqualFold(t.TenantID, tenant)) &&
			(len(t.EventTypes) == 0 || names.Called(t.EventTypes...).Has(namespace, eventType)) {
			return false, false
		}
		told = told || knows
	}
	return len(live) > 0, told
}

// String is what a publisher takes in words; empty: everything.
func (t Takes) String() string {
	var parts []string
	if t.Namespace != "" {
		parts = append(parts, "namespace "+t.Namespace)
	}
	if t.TenantID != "" {
		parts = append(parts, "tenant "+t.TenantID)
	}
	if len(t.EventTypes) > 0 {
		parts = append(parts, strings.Join(t.EventTypes, ", "))
	}
	return strings.Join(parts, "; ")
}
