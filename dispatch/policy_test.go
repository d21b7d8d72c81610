package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/migrate"
)

// An event that is not published in time dies, by the database's clock; one that was scheduled has its time from then
// on, and one that is replayed from the replay on.
func TestEventsExpire(t *testing.T) {
	t.Parallel()
	db, emitter := expiring(t)
	for _, e := range []emit.Event{
		{Type: "quick", DedupeKey: "old"}, {Type: "quick", DedupeKey: "scheduled"}, {Type: "quick", DedupeKey: "new"}, {Type: "patient", DedupeKey: "patient"},
	} {
		emitIn(t, db.Pool, emitter, 1, e)
	}
	_, err := db.Pool.Exec(t.Context(), `
ALTER TABLE outbox_events DISABLE TRIGGER USER;
UPDATE outbox_events SET created_at = now() - interval '2 hours' WHERE dedupe_key <> 'new';
UPDATE outbox_events SET deliver_at = now() - interval '10 minutes' WHERE dedupe_key = 'scheduled';
ALTER TABLE outbox_events ENABLE TRIGGER USER`)
	require.NoError(t, err)

	publishes(t, db.URL, 3, 1)
	var key, reason, message string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `
SELECT e.dedupe_key, d.error_reason, d.error_message FROM outbox_dlq AS d JOIN outbox_events AS e ON e.id = d.event_id`).Scan(&key, &reason, &message))
	require.Equal(t, []string{"old", "expired", "not published within 1h, which its type allows"}, []string{key, reason, message})

	_, err = db.Pool.Exec(t.Context(), `SELECT outbox_change('dlq.replay', ARRAY(SELECT id FROM outbox_dlq), 'ann')`)
	require.NoError(t, err)
	publishes(t, db.URL, 1, 0)
}

// While a type is paused its events wait, however late they are; resumed, they die. An expired head holds its key like any
// other that died, until it is discarded.
func TestExpiryMeetsPauseAndOrder(t *testing.T) {
	t.Parallel()
	db, emitter := expiring(t)
	for _, e := range []emit.Event{{Type: "quick", DedupeKey: "head", OrderingKey: "k"}, {Type: "patient", DedupeKey: "follower", OrderingKey: "k"}} {
		emitIn(t, db.Pool, emitter, 1, e)
	}
	_, err := db.Pool.Exec(t.Context(), `
ALTER TABLE outbox_events DISABLE TRIGGER USER;
UPDATE outbox_events SET created_at = now() - interval '2 hours';
ALTER TABLE outbox_events ENABLE TRIGGER USER`)
	require.NoError(t, err)
	pause(t, db.Pool, "type", "quick")
	publishes(t, db.URL, 0, 0)
	_, err = db.Pool.Exec(t.Context(), `SELECT outbox_resume('type', 'quick', 'ann')`)
	require.NoError(t, err)
	publishes(t, db.URL, 0, 1)
	publishes(t, db.URL, 0, 0)
	_, err = db.Pool.Exec(t.Context(), `SELECT outbox_change('dlq.discard', ARRAY(SELECT id FROM outbox_dlq), 'ann')`)
	require.NoError(t, err)
	publishes(t, db.URL, 1, 0)
}

// expiring is an outbox with the types quick, whose events expire after an hour, and patient.
func expiring(t *testing.T) (*outboxtest.Database, *emit.Emitter) {
	t.Helper()
	db := outboxtest.EmptyDB(t)
	_, err := migrate.Up(t.Context(), db.Pool, migrate.Options{Types: migrate.Text})
	require.NoError(t, err)
	d := document("", "usage", []string{"quick"}, []string{"patient"})
	d.Types[0].Policy = wire.Policy{ExpiresAfter: time.Hour}
	return db, applyDocuments(t, db.Pool, d)
}

// publishes publishes what is due, and so many die.
func publishes(t *testing.T, url string, published, dead int64) {
	t.Helper()
	done := once(t, url)
	require.Equal(t, []int64{published, dead}, []int64{done.Published, done.Dead})
}

// The policy is the same in Go, in YAML and in the database.
func TestPolicyTravels(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	_, err := migrate.Up(t.Context(), db.Pool, migrate.Options{Types: migrate.Text})
	require.NoError(t, err)
	d := document("", "usage", []string{"quick"})
	d.Types[0].Policy = wire.Policy{MaxAttempts: 3, BackoffMin: 2 * time.Second, BackoffMax: time.Minute, ExpiresAfter: 24 * time.Hour, Rate: 0.5}
	applyDocuments(t, db.Pool, d)
	recorded, err := catalogue.Recorded(t.Context(), db.Pool)
	require.NoError(t, err)
	found, _ := recorded.Catalogue.Find("default", "quick")
	require.Equal(t, d.Types[0].Policy, found.Policy)
	built, err := catalogue.Build(d)
	require.NoError(t, err)
	same, _ := built.Find("default", "quick")
	require.Equal(t, same.Digest(), found.Digest())
	described, _ := recorded.Catalogue.Describe("default", "quick")
	require.Equal(t, d.Types[0].Policy, described.Policy)
}
