package outbox

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A look after a pause of hours finds what was published in them, and an event of a producer whose clock is ahead is shown
// once, however long the looks find it.
func TestLooksOfATail(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	o := &Outbox{DB: db.Pool}
	now, err := o.Now(t.Context())
	require.NoError(t, err)
	published := func(at time.Time) string {
		id := uuid.New()
		binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000)
		_, err := db.Pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
			VALUES ($1, 'license_status_changed', 'license', outbox_uuid_v7(), '{"version":1}', now())`, id)
		require.NoError(t, err)
		return id.String()
	}
	lately, ahead := published(now.Add(-10*time.Minute)), published(now.Add(30*time.Minute))
	look := &tail{outbox: o, since: now.Add(-3 * time.Hour), seq: 1 << 60, seen: map[string]time.Time{}}
	shown := map[string]int{}
	for range 3 {
		events, err := look.look(t.Context())
		require.NoError(t, err)
		for _, e := range events {
			shown[e.ID]++
		}
		for id := range look.seen { // time goes by
			look.seen[id] = look.seen[id].Add(-4 * tailBack)
		}
	}
	require.Equal(t, map[string]int{lately: 1, ahead: 1}, shown)
}
