package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Peer is one publisher by its heartbeat.
type Peer struct {
	ID         string         `db:"id"`
	Host       string         `db:"host"`
	PID        int            `db:"pid"`
	Version    string         `db:"version"`
	StartedAt  time.Time      `db:"started_at"`
	LastSeenAt time.Time      `db:"last_seen_at"`
	Alive      bool           `db:"alive"`
	Raw        string         `db:"state"`
	State      PublisherState `db:"-"`
}

const selectPeers = `
SELECT id::text AS id, host, pid, version, started_at, last_seen_at, last_seen_at > now() - $1::interval AS alive, state::text AS state
  FROM outbox_publishers
 ORDER BY last_seen_at DESC`

// Peers reads the heartbeats, the newest first.
func Peers(ctx context.Context, db outbox.Querier) ([]Peer, error) {
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
