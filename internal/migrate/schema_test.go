package migrate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
)

func TestFirstMigrationIsTheLockedTable(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{To: 1})
	require.NoError(t, err)
	require.Equal(t, []string{
		"id uuid NO ",
		"event_type event_type_enum NO ",
		"aggregate_type aggregate_type_enum NO ",
		"aggregate_id uuid NO ",
		"payload_json jsonb NO ",
		"created_at timestamptz NO now()",
		"published_at timestamptz YES ",
		"attempt_count int4 NO 0",
		"last_error text YES ",
	}, columns(t, pool))
	require.Equal(t, []string{
		"CREATE INDEX idx_outbox_events_event_type ON outbox_events USING btree (event_type)",
		"CREATE INDEX idx_outbox_events_published_at ON outbox_events USING btree (published_at)",
		"CREATE INDEX outbox_events_aggregate_idx ON outbox_events USING btree (aggregate_type, aggregate_id)",
		"CREATE UNIQUE INDEX outbox_events_pkey ON outbox_events USING btree (id)",
	}, indexes(t, pool))
}

func TestLaterMigrationsKeepTheLockedColumns(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	require.Equal(t, []string{
		"id uuid NO ",
		"event_type event_type_enum NO ",
		"aggregate_type aggregate_type_enum NO ",
		"aggregate_id uuid NO ",
		"payload_json jsonb NO ",
		"created_at timestamptz NO now()",
		"published_at timestamptz YES ",
		"attempt_count int4 NO 0",
		"last_error text YES ",
		"namespace text NO 'default'::text",
		"tenant_id uuid YES ",
		"dedupe_key text YES ",
		"max_attempts int4 YES ",
		"headers jsonb YES ",
		"next_attempt_at timestamptz NO now()",
		"dead_at timestamptz YES ",
		"broker_message_id text YES ",
		"ordering_key text YES ",
		"passed_at timestamptz YES ",
		"erased_at timestamptz YES ",
		"deliver_at timestamptz YES ",
		"seq int8 NO ",
	}, columns(t, pool))
	require.Equal(t, "ALWAYS", queryOne[string](t, pool,
		`SELECT identity_generation FROM information_schema.columns WHERE table_name = 'outbox_events' AND column_name = 'seq'`))
	require.Equal(t, []string{"fillfactor=50"}, queryOne[[]string](t, pool,
		`SELECT reloptions FROM pg_class WHERE oid = 'outbox_events'::regclass`))
}

// The types of events and aggregates are compared with the catalogue, in internal/registry.
func TestDeadReasons(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	require.Equal(t, []string{
		"max_attempts", "unknown_event_type", "invalid_payload", "aggregate_mismatch", "message_too_large", "rejected_by_broker", "erased", "expired",
	}, queryAll(t, pool, `SELECT unnest(enum_range(NULL::outbox_dlq_reason))::text`))
}

// A failure would have to write such an index, and a table of fewer indexes is cheaper to write.
func TestNoIndexMentionsWhatAFailureChanges(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	const mentions = `
SELECT i.indexrelid::regclass || ' ' || a.attname
  FROM pg_index i
  JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.refobjid = i.indrelid AND d.refobjsubid > 0
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = d.refobjsubid
 WHERE i.indrelid = 'outbox_events'::regclass
   AND a.attname IN ('next_attempt_at', 'attempt_count', 'last_error')
 ORDER BY 1`
	require.Empty(t, queryAll(t, pool, mentions))

	// The query sees a column in the key, in an expression and in a predicate alike.
	exec(t, pool, `CREATE INDEX a ON outbox_events (attempt_count)`)
	exec(t, pool, `CREATE INDEX b ON outbox_events ((last_error IS NULL))`)
	exec(t, pool, `CREATE INDEX c ON outbox_events (seq) WHERE next_attempt_at IS NOT NULL`)
	require.Equal(t, []string{"a attempt_count", "b last_error", "c next_attempt_at"}, queryAll(t, pool, mentions))
}

func TestIndexesOfTheFinishedSchema(t *testing.T) {
	t.Parallel()
	got := indexes(t, migrated(t))
	require.NotContains(t, got, "CREATE INDEX outbox_events_aggregate_idx ON outbox_events USING btree (aggregate_type, aggregate_id)")
	require.Subset(t, got, []string{
		"CREATE INDEX outbox_events_event_type_idx ON outbox_events USING btree (event_type) WHERE (published_at IS NULL)",
		"CREATE INDEX outbox_events_open_aggregate_idx ON outbox_events USING btree (aggregate_type, aggregate_id) WHERE (published_at IS NULL)",
		"CREATE INDEX outbox_events_past_aggregate_idx ON outbox_events USING btree (aggregate_type, aggregate_id) WHERE (published_at IS NOT NULL)",
		"CREATE INDEX outbox_events_published_at_idx ON outbox_events USING btree (published_at) WHERE (published_at IS NOT NULL)",
		"CREATE INDEX outbox_events_seq_claim_idx ON outbox_events USING btree (seq) WHERE ((published_at IS NULL) AND (dead_at IS NULL))",
		"CREATE UNIQUE INDEX outbox_events_dedupe_idx ON outbox_events USING btree (namespace, event_type, dedupe_key) WHERE (dedupe_key IS NOT NULL)",
		"CREATE UNIQUE INDEX outbox_events_pkey ON outbox_events USING btree (id)",
	})
}

// Registry, enum and SQL function must name the same aggregates.
func TestExpectedAggregateAgreesWithTheRegistry(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	reg := registry.New()
	for _, eventType := range queryAll(t, pool, `SELECT unnest(enum_range(NULL::event_type_enum))::text`) {
		want, _, ok := reg.Resolve(eventType)
		require.True(t, ok, eventType)
		require.Equal(t, want, queryOne[string](t, pool, `SELECT outbox_packfinderz_aggregate($1)`, eventType))
	}
}

func TestStatusView(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	const lease = `INSERT INTO outbox_leases (owner, until, seqs)
		SELECT gen_random_uuid(), now() + interval '1 minute', int8multirange(int8range(seq, seq, '[]')) FROM outbox_events WHERE id = $1::text::uuid`
	for status, change := range map[string]string{
		"pending":    "",
		"processing": lease,
		"published":  "UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid",
		"dead":       "UPDATE outbox_events SET dead_at = now() WHERE id = $1::text::uuid",
	} {
		var id string
		require.NoError(t, pool.QueryRow(t.Context(), insert+" RETURNING id").Scan(&id))
		if change != "" {
			exec(t, pool, change, id)
		}
		require.Equal(t, status, queryOne[string](t, pool, `SELECT status FROM outbox_event_status WHERE id = $1::text::uuid`, id))
	}
	const held = `SELECT count(*) FROM outbox_event_status AS e JOIN outbox_leases AS l ON l.owner = e.locked_by AND l.until = e.locked_until`
	require.Equal(t, int64(1), queryOne[int64](t, pool, held))
	exec(t, pool, `UPDATE outbox_leases SET until = now() - interval '1 second'`)
	require.Equal(t, int64(2), queryOne[int64](t, pool, `SELECT count(*) FROM outbox_event_status WHERE status = 'pending'`),
		"an expired lease is pending again")
	require.Equal(t, int64(1), queryOne[int64](t, pool, held), "and still says who had it")
}
