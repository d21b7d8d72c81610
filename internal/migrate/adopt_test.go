package migrate_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
)

func TestExistingIdenticalTableIsAdopted(t *testing.T) {
	t.Parallel()
	pool := adopted(t, 3000)
	exec(t, pool, `ALTER INDEX idx_outbox_events_published_at RENAME TO their_own_name`)
	exec(t, pool, `DROP INDEX outbox_events_aggregate_idx`)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	finished(t, pool, 3000, 0)
}

// What was published before is history: no row of it is written, and those that wait are numbered in their order.
func TestHistoryIsNotRewritten(t *testing.T) {
	t.Parallel()
	pool := adopted(t, 4500)
	exec(t, pool, `UPDATE outbox_events SET published_at = now() WHERE id IN (SELECT id FROM outbox_events ORDER BY created_at LIMIT 2000)`)
	const versions = `SELECT md5(string_agg(id::text || xmin::text || ctid::text, ',' ORDER BY id)) FROM outbox_events WHERE published_at IS NOT NULL`
	before := queryOne[string](t, pool, versions)
	var progress []string
	_, err := migrate.Up(t.Context(), pool, migrate.Options{Pace: -1, Progress: func(m string) { progress = append(progress, m) }})
	require.NoError(t, err)
	require.NotEmpty(t, progress)
	require.Equal(t, before, queryOne[string](t, pool, versions))
	require.Equal(t, []string{"0 2000 0", "1 1 1", "2 1 2", "3 1 3"}, queryAll(t, pool, `
		SELECT format('%s %s %s', seq, count(*), max(turn)) FROM (SELECT seq, CASE WHEN published_at IS NULL
		    THEN row_number() OVER (PARTITION BY published_at IS NULL ORDER BY created_at, id) ELSE 0 END AS turn FROM outbox_events) AS t
		 WHERE seq < 4 GROUP BY seq ORDER BY seq`))
	require.Equal(t, int64(2500), queryOne[int64](t, pool, `SELECT max(seq) FROM outbox_events`))
	exec(t, pool, insert)
	require.Less(t, int64(2500), queryOne[int64](t, pool, `SELECT max(seq) FROM outbox_events`))
}

// The inserting role needed no right on a sequence before, and must not need one while seq is half-way.
func TestStrangerCanInsertWhileSeqIsHalfWay(t *testing.T) {
	t.Parallel()
	pool := adopted(t, 10)
	role := pgIdent(t, "stranger")
	exec(t, pool, "CREATE ROLE "+role)
	exec(t, pool, "GRANT INSERT ON outbox_events TO "+role)
	t.Cleanup(func() {
		_, _ = pool.Exec(t.Context(), "DROP OWNED BY "+role)
		_, _ = pool.Exec(t.Context(), "DROP ROLE "+role)
	})
	goOn := stallIndexBuilds(t, pool)
	done := make(chan error, 1)
	go func() {
		_, err := migrate.Up(t.Context(), pool, migrate.Options{})
		done <- err
	}()
	eventually(t, pool, invalidIndex)
	_, err := pool.Exec(t.Context(), "SET ROLE "+role+"; "+insert+"; RESET ROLE")
	require.NoError(t, err)
	goOn()
	require.NoError(t, <-done)
}

// What does no harm is not a reason to refuse a table.
func TestHarmlessDifferencesAreAdopted(t *testing.T) {
	t.Parallel()
	pool := adopted(t, 10)
	exec(t, pool, `ALTER TABLE outbox_events ALTER COLUMN id SET DEFAULT gen_random_uuid(), ALTER COLUMN created_at SET DEFAULT clock_timestamp(),
		ALTER COLUMN aggregate_id SET DEFAULT gen_random_uuid(), ALTER COLUMN payload_json SET DEFAULT '{}',
		ADD COLUMN note text, ADD COLUMN region text NOT NULL DEFAULT 'eu', ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY,
		ADD COLUMN kind text GENERATED ALWAYS AS (payload_json ->> 'kind') STORED`)
	exec(t, pool, `CREATE INDEX ON outbox_events (note); CREATE UNIQUE INDEX ON outbox_events (number)`)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO outbox_events (event_type, aggregate_type) VALUES ('order_created', 'checkout_group')`)
	_, err = emit(t, pool, `'order_created', NULL, gen_random_uuid(), '{}'`)
	require.NoError(t, err)
	require.Equal(t, int64(12), queryOne[int64](t, pool, `SELECT count(DISTINCT seq) FROM outbox_events`))
}

// A table that cannot serve is refused with the statement that would help; once that has run, the table is adopted.
func TestTableOfAnotherShapeIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ change, problem, statement string }{
		"column missing":  {`DROP COLUMN last_error`, "last_error is missing", `ALTER TABLE outbox_events ADD COLUMN last_error text;`},
		"type differs":    {`ALTER COLUMN attempt_count TYPE bigint`, "attempt_count is bigint, needed is integer", `ALTER TABLE outbox_events ALTER COLUMN attempt_count TYPE integer USING attempt_count::integer;`},
		"no time zone":    {`ALTER COLUMN published_at TYPE timestamp`, "published_at is timestamp without time zone", `ALTER TABLE outbox_events ALTER COLUMN published_at TYPE timestamp with time zone USING published_at AT TIME ZONE 'UTC';`},
		"id of text":      {`ALTER COLUMN id TYPE text`, "id is text, needed is uuid", `ALTER TABLE outbox_events ALTER COLUMN id TYPE uuid USING id::uuid;`},
		"type of integer": {`ALTER COLUMN event_type TYPE integer USING 1`, "event_type is integer, needed is event_type_enum or text or character varying", `ALTER TABLE outbox_events ALTER COLUMN event_type TYPE text USING event_type::text;`},
		"may be null":     {`ALTER COLUMN payload_json DROP NOT NULL`, "payload_json may be null", `ALTER TABLE outbox_events ALTER COLUMN payload_json SET NOT NULL;`},
		"never null":      {`ALTER COLUMN last_error SET DEFAULT ''; UPDATE outbox_events SET last_error = ''; ALTER TABLE outbox_events ALTER COLUMN last_error SET NOT NULL`, "last_error may not be null, but is while an event waits; last_error has a default", `ALTER TABLE outbox_events ALTER COLUMN last_error DROP NOT NULL; ALTER TABLE outbox_events ALTER COLUMN last_error DROP DEFAULT;`},
		"no default":      {`ALTER COLUMN attempt_count DROP DEFAULT`, "attempt_count has another default than 0", `ALTER TABLE outbox_events ALTER COLUMN attempt_count SET DEFAULT 0;`},
		"no time":         {`ALTER COLUMN created_at DROP DEFAULT`, "created_at has no default", `ALTER TABLE outbox_events ALTER COLUMN created_at SET DEFAULT now();`},
		"born published":  {`ALTER COLUMN published_at SET DEFAULT now()`, "published_at has a default", `ALTER TABLE outbox_events ALTER COLUMN published_at DROP DEFAULT;`},
		"no primary key":  {`DROP CONSTRAINT outbox_events_pkey`, "table has no primary key on (id)", `ALTER TABLE outbox_events ADD PRIMARY KEY (id);`},
		"further column":  {`ADD COLUMN "Shop" int NOT NULL DEFAULT 1; ALTER TABLE outbox_events ALTER COLUMN "Shop" DROP DEFAULT`, "Shop is a further column that may not be null and has no default", `ALTER TABLE outbox_events ALTER COLUMN "Shop" DROP NOT NULL;`},
		"name of ours":    {`ADD COLUMN headers text`, "headers has the name of a column that outboxctl adds", `ALTER TABLE outbox_events RENAME COLUMN headers TO their_headers;`},
		"key of theirs":   {`ADD COLUMN ordering_key text`, "ordering_key has the name of a column that outboxctl adds", `ALTER TABLE outbox_events RENAME COLUMN ordering_key TO their_ordering_key;`},
		"several":         {`DROP COLUMN last_error, ALTER COLUMN created_at DROP DEFAULT`, "created_at has no default; last_error is missing", `ALTER TABLE outbox_events ALTER COLUMN created_at SET DEFAULT now(); ALTER TABLE outbox_events ADD COLUMN last_error text;`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := adopted(t, 1)
			exec(t, pool, "ALTER TABLE outbox_events "+tc.change)
			partial := refused(t, pool)
			require.ErrorContains(t, partial, "existing table outbox_events has another shape: "+tc.problem)
			require.Equal(t, tc.statement, partial.Hint())
			if name == "type of integer" {
				exec(t, pool, "DELETE FROM outbox_events")
			}
			exec(t, pool, partial.Hint())
			_, err := migrate.Up(t.Context(), pool, migrate.Options{})
			require.NoError(t, err)
		})
	}
	for name, change := range map[string]string{
		"enum value gone":  `ALTER TYPE event_type_enum RENAME VALUE 'ad_paused' TO 'ad_stopped'`,
		"of another owner": `ALTER TABLE outbox_events OWNER TO pg_monitor`,
		"a view":           `ALTER TABLE outbox_events RENAME TO events; CREATE VIEW outbox_events AS SELECT * FROM events`,
		"partitioned":      `DROP TABLE outbox_events; CREATE TABLE outbox_events (id uuid PRIMARY KEY) PARTITION BY HASH (id)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := adopted(t, 1)
			exec(t, pool, change)
			require.NotEmpty(t, refused(t, pool).Hint())
		})
	}
}

// refused migrates a table that cannot be adopted, which must leave everything as it is.
func refused(t *testing.T, pool *pgxpool.Pool) *migrate.PartialError {
	t.Helper()
	before := catalogue(t, pool)
	_, err := migrate.Up(t.Context(), pool, migrate.Options{})
	var partial *migrate.PartialError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, "OX200", state(t, err))
	exec(t, pool, "DROP TABLE IF EXISTS outbox_schema_version")
	require.Empty(t, differ(before, catalogue(t, pool)), "what is not ours is left alone")
	return partial
}

// A table that was never analyzed is planned for by a sample of it.
func TestPlanOfATableWithoutStatistics(t *testing.T) {
	t.Parallel()
	pool := adopted(t, 0)
	exec(t, pool, `ALTER TABLE outbox_events SET (autovacuum_enabled = off)`)
	survey := func() migrate.Adoption {
		a, err := migrate.Survey(t.Context(), pool, migrate.Options{})
		require.NoError(t, err)
		return a
	}
	require.Zero(t, survey().Rows)
	exec(t, pool, `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
		SELECT gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), jsonb_build_object('x', repeat('y', 200)), CASE WHEN i > 100 THEN now() END
		  FROM generate_series(1, 60000) AS i`)
	require.Equal(t, float32(-1), queryOne[float32](t, pool, `SELECT reltuples FROM pg_class WHERE oid = 'outbox_events'::regclass`))
	a := survey()
	require.InDelta(t, 60000, a.Rows, 12000)
	require.EqualValues(t, 100, a.Waiting)
	require.Less(t, a.GrowthBytes, a.TableBytes)
	exec(t, pool, `ANALYZE outbox_events`)
	require.InDelta(t, 60000, survey().Rows, 100)
}

func TestSurveyTellsWhatBecomesOfATable(t *testing.T) {
	t.Parallel()
	empty, err := migrate.Survey(t.Context(), emptyDB(t), migrate.Options{})
	require.NoError(t, err)
	require.False(t, empty.Exists)
	require.Equal(t, migrate.TypesEnum, empty.Types)
	require.Positive(t, empty.Pending)

	pool := adopted(t, 6)
	exec(t, pool, `ALTER TABLE outbox_events ALTER COLUMN id SET DEFAULT gen_random_uuid(); CREATE INDEX their_idx ON outbox_events (created_at);
		CREATE UNIQUE INDEX their_key ON outbox_events ((payload_json ->> 'key'))`)
	writer, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = writer.Exec(t.Context(), `INSERT INTO outbox_events SELECT * FROM outbox_events LIMIT 0`)
	require.NoError(t, err)
	found, err := migrate.Survey(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	require.NoError(t, writer.Rollback(t.Context()))
	require.True(t, found.Exists)
	require.Empty(t, found.Blocked)
	require.Equal(t, []string{"default of id: gen_random_uuid()", "index their_idx, which costs every write"}, found.Harmless)
	require.Equal(t, []string{"unique index their_key: an event that it keeps out makes outbox_emit fail with OX008"}, found.Warnings)
	require.Equal(t, int64(6), found.Waiting)
	require.Len(t, found.Steps, 3)
	require.Condition(t, func() bool {
		return slices.ContainsFunc(found.Sessions, func(s migrate.Session) bool { return s.Does == "writes" && s.Since != nil })
	}, "%+v", found.Sessions)

	_, err = migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	found, err = migrate.Survey(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	require.Zero(t, found.Pending)
	require.Empty(t, found.Steps)
}

// The survey names what Up refuses, and looks at nothing else.
func TestSurveyNamesWhatBlocks(t *testing.T) {
	t.Parallel()
	pool := emptyDB(t)
	exec(t, pool, `CREATE TYPE event_type_enum AS ENUM ('order_created'); CREATE TABLE outbox_events (id text PRIMARY KEY,
		event_type event_type_enum NOT NULL, aggregate_type text NOT NULL, aggregate_id bigint NOT NULL, payload_json jsonb NOT NULL,
		created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz, attempt_count integer NOT NULL DEFAULT 0)`)
	found, err := migrate.Survey(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	require.Len(t, found.Blocked, 2+17)
	require.Equal(t, []migrate.Difference{
		{Column: "id", Problem: "is text, needed is uuid", Statement: "ALTER TABLE outbox_events ALTER COLUMN id TYPE uuid USING id::uuid"},
		{Column: "last_error", Problem: "is missing", Statement: "ALTER TABLE outbox_events ADD COLUMN last_error text"},
		{Column: "event_type_enum", Problem: "lacks the value order_state_changed", Statement: "ALTER TYPE event_type_enum ADD VALUE 'order_state_changed'"},
	}, found.Blocked[:3])
	require.Empty(t, found.Steps)
	_, err = migrate.Up(t.Context(), pool, migrate.Options{})
	require.Error(t, err, "as the survey said")
	for _, d := range found.Blocked {
		exec(t, pool, d.Statement)
	}
	found, err = migrate.Survey(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	require.Empty(t, found.Blocked)
	_, err = migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
}
