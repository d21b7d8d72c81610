package adoption_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/adoption"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

// packFinderz is a table as PackFinderz' own code leaves it, with one row of each fate.
const packFinderz = `
ALTER TABLE outbox_events ALTER COLUMN id SET DEFAULT gen_random_uuid();
CREATE INDEX their_idx ON outbox_events (created_at); CREATE UNIQUE INDEX their_key ON outbox_events ((payload_json ->> 'key'));
INSERT INTO outbox_events (event_type, aggregate_type, aggregate_id, payload_json, attempt_count, published_at)
SELECT v.event_type::event_type_enum, v.aggregate_type::aggregate_type_enum, gen_random_uuid(), v.payload::jsonb, v.attempts, v.at
  FROM (VALUES
    ('ad_paused', 'ad', '{"version": 1, "eventId": "0d2f4b1e-0000-4000-8000-000000000001", "occurredAt": "2026-01-01T00:00:00Z", "data": {}}', 0, NULL::timestamptz),
    ('ad_paused', 'ad', '{"version": 1, "eventId": "0d2f4b1e-0000-4000-8000-000000000002", "occurredAt": "2026-01-01T00:00:00Z", "data": {}}', 3, NULL),
    ('ad_paused', 'ad', '{"version": 1, "eventId": "0d2f4b1e-0000-4000-8000-000000000003", "occurredAt": "2026-01-01T00:00:00Z", "data": {"odd": 1}}', 0, NULL),
    ('ad_paused', 'ad', '{"no": "envelope"}', 0, NULL),
    ('ad_paused', 'store', '{"version": 1, "eventId": "0d2f4b1e-0000-4000-8000-000000000004", "occurredAt": "2026-01-01T00:00:00Z", "data": {}}', 0, NULL),
    ('ad_paused', 'ad', '{"no": "envelope"}', 10, NULL),
    ('ad_paused', 'ad', '{"no": "envelope"}', 0, now())) AS v(event_type, aggregate_type, payload, attempts, at)`

func plan(t *testing.T, db *outboxtest.Database) adoption.Adoption {
	t.Helper()
	p, err := adoption.Plan(t.Context(), db.Pool, adoption.Params{Catalogue: registry.New(), MaxAttempts: 10})
	require.NoError(t, err)
	return p
}

func TestPlanMigrationTellsWhatBecomesOfATable(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	p := plan(t, db)
	require.False(t, p.Exists)
	require.Equal(t, migrate.TypesEnum, p.Types)
	require.Positive(t, p.Pending)

	_, err := migrate.Up(t.Context(), db.Pool, migrate.Options{To: 1})
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), "DROP TABLE outbox_schema_version;"+packFinderz)
	require.NoError(t, err)
	writer, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = writer.Exec(t.Context(), `INSERT INTO outbox_events SELECT * FROM outbox_events LIMIT 0`)
	require.NoError(t, err)

	p = plan(t, db)
	require.True(t, p.Exists)
	require.Empty(t, p.Blocked)
	require.Equal(t, []string{"default of id: gen_random_uuid()", "index their_idx, which costs every write"}, p.Harmless)
	require.Equal(t, []string{"unique index their_key: an event that it keeps out makes outbox_emit fail with OX008"}, p.Warnings)
	require.Equal(t, int64(6), p.Waiting)
	require.Len(t, p.Steps, 4)
	require.Condition(t, func() bool {
		return slices.ContainsFunc(p.Sessions, func(s migrate.Session) bool { return s.Does == "writes" && s.Since != nil })
	}, "%+v", p.Sessions)
	require.NoError(t, writer.Rollback(t.Context()))
	for i := range p.Backlog.Die {
		require.NoError(t, uuid.Validate(p.Backlog.Die[i].Example))
		p.Backlog.Die[i].Example, p.Backlog.Die[i].Problem = "", ""
	}
	require.Equal(t, registry.Backlog{Judged: 6, Publish: 2, OtherEventID: 2, AttemptsSpent: 1, Die: []registry.Refusal{
		{EventType: "ad_paused", Reason: "invalid_payload", Waiting: 2},
		{EventType: "ad_paused", Reason: "aggregate_mismatch", Waiting: 1},
	}}, p.Backlog)

	_, err = migrate.Up(t.Context(), db.Pool, migrate.Options{})
	require.NoError(t, err)
	p = plan(t, db)
	require.Zero(t, p.Pending)
	require.Empty(t, p.Steps)
	require.Equal(t, int64(2), p.Backlog.Publish)
	_, err = db.Pool.Exec(t.Context(), `UPDATE outbox_events SET dead_at = now() WHERE published_at IS NULL`)
	require.NoError(t, err)
	require.Zero(t, plan(t, db).Backlog.Judged)
}

// The plan names what migrate refuses, and looks at nothing else.
func TestPlanMigrationNamesWhatBlocks(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	_, err := db.Pool.Exec(t.Context(), `CREATE TYPE event_type_enum AS ENUM ('order_created'); CREATE TABLE outbox_events (id text PRIMARY KEY,
		event_type event_type_enum NOT NULL, aggregate_type text NOT NULL, aggregate_id bigint NOT NULL, payload_json jsonb NOT NULL,
		created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz, attempt_count integer NOT NULL DEFAULT 0)`)
	require.NoError(t, err)
	p := plan(t, db)
	require.Len(t, p.Blocked, 2+17)
	require.Equal(t, []migrate.Difference{
		{Column: "id", Problem: "is text, needed is uuid", Statement: "ALTER TABLE outbox_events ALTER COLUMN id TYPE uuid USING id::uuid"},
		{Column: "last_error", Problem: "is missing", Statement: "ALTER TABLE outbox_events ADD COLUMN last_error text"},
		{Column: "event_type_enum", Problem: "lacks the value order_state_changed", Statement: "ALTER TYPE event_type_enum ADD VALUE 'order_state_changed'"},
	}, p.Blocked[:3])
	require.Empty(t, p.Steps)
	_, err = migrate.Up(t.Context(), db.Pool, migrate.Options{})
	require.Error(t, err, "as the plan said")
	for _, d := range p.Blocked {
		_, err := db.Pool.Exec(t.Context(), d.Statement, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err, d.Statement)
	}
	require.Empty(t, plan(t, db).Blocked)
	_, err = migrate.Up(t.Context(), db.Pool, migrate.Options{})
	require.NoError(t, err)
}
