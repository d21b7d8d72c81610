package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

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
