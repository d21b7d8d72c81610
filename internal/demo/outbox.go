package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Outbox is how the events are doing.
type Outbox struct {
	// Published counts those published since the time asked about.
	Published int64
	Waiting   int64
	// Dead counts the open dead letters.
	Dead int64
}

// countOutbox asks three partial indexes; the published ones since a time only, so that an old
// stack costs no more.
const countOutbox = `
SELECT (SELECT count(*) FROM outbox_events WHERE published_at >= $1),
       (SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL),
       (SELECT count(*) FROM outbox_dlq WHERE state = 'open')`

// ReadOutbox counts the events in the database at url.
func ReadOutbox(ctx context.Context, url string, since time.Time) (o Outbox, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return o, fmt.Errorf("count events: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // it only read
	if err := conn.QueryRow(ctx, countOutbox, since).Scan(&o.Published, &o.Waiting,
		&o.Dead); err != nil {
		return o, fmt.Errorf("count events: %w", err)
	}
	return o, nil
}
