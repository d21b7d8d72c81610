package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// What can be paused.
const (
	PauseTopic     = "topic"
	PauseType      = "type"
	PauseTenant    = "tenant"
	PauseNamespace = "namespace"
)

// Pause is something that publishers leave alone until it is lifted or ends.
type Pause struct {
	Kind  string     `json:"kind" db:"kind"`
	Value string     `json:"value" db:"value"`
	Actor string     `json:"actor" db:"actor"`
	Note  string     `json:"note" db:"note"`
	At    time.Time  `json:"at" db:"at"`
	Until *time.Time `json:"until" db:"until"`
}

// HeldPause is a pause with what it holds back.
type HeldPause struct {
	Pause
	Events   int64      `json:"events" db:"events"`
	OldestAt *time.Time `json:"oldestAt" db:"oldest_at"`
}

const (
	pauseColumns = `p.kind, p.value, p.actor, coalesce(p.note, '') AS note, p.at, p.until`
	inForce      = ` WHERE p.until IS NULL OR p.until > now() ORDER BY p.kind, p.value`
)

const selectPauses = `SELECT ` + pauseColumns + ` FROM outbox_pauses AS p` + inForce

// Each pause walks outbox_events_seq_claim_idx, which is what waits. $1 has the event types of each topic.
const selectHeldPauses = `
SELECT ` + pauseColumns + `, h.events, h.oldest_at
  FROM outbox_pauses AS p
 CROSS JOIN LATERAL (
       SELECT count(*) AS events, min(e.created_at) AS oldest_at
         FROM outbox_events AS e
        WHERE e.published_at IS NULL AND e.dead_at IS NULL
          AND CASE p.kind WHEN 'namespace' THEN e.namespace = p.value
                          WHEN 'tenant' THEN e.tenant_id::text = p.value
                          WHEN 'type' THEN e.event_type::text = p.value
                          ELSE coalesce(($1::text::jsonb -> p.value) ? e.event_type::text, false) END) AS h` + inForce

// Querier runs a query.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Pauses reads what is paused now.
func Pauses(ctx context.Context, db Querier) ([]Pause, error) {
	return readPauses[Pause](ctx, db, selectPauses)
}

// HeldPauses reads what is paused now and how much that holds back. typesByTopic is the catalogue's.
func HeldPauses(ctx context.Context, db Querier, typesByTopic map[string][]string) ([]HeldPause, error) {
	topics, err := json.Marshal(typesByTopic)
	if err != nil {
		return nil, fmt.Errorf("read pauses: %w", err)
	}
	return readPauses[HeldPause](ctx, db, selectHeldPauses, string(topics))
}

func readPauses[T any](ctx context.Context, db Querier, sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read pauses: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	if err != nil {
		return nil, fmt.Errorf("read pauses: %w", err)
	}
	return found, nil
}

// Holds reports whether the pause holds back an event of this topic, type, tenant and namespace.
func (p Pause) Holds(topic, eventType, tenant, namespace string) bool {
	switch p.Kind {
	case PauseTopic:
		return p.Value == topic
	case PauseType:
		return p.Value == eventType
	case PauseTenant:
		return p.Value == tenant
	default:
		return p.Value == namespace
	}
}
