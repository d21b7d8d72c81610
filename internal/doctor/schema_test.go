package doctor

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/pgread"
)

var update = flag.Bool("update", false, "rewrite schema.txt")

func TestExpectedSchemaIsTheMigratedOne(t *testing.T) {
	t.Parallel()
	rows, err := outboxtest.DB(t).Pool.Query(t.Context(), readSchema)
	require.NoError(t, err)
	objects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[object])
	require.NoError(t, err)
	var lines []string
	for _, o := range objects {
		lines = append(lines, strings.Join([]string{o.Kind, o.Table, o.Name, o.State, o.Make}, "\t")+"\n")
	}
	slices.Sort(lines)
	if *update {
		require.NoError(t, os.WriteFile("schema.txt", []byte(strings.Join(lines, "")), 0o644))
		return
	}
	require.Equal(t, expectedSchema, strings.Join(lines, ""), "run go test ./internal/doctor -run ExpectedSchema -update")
}

func TestOldServersFail(t *testing.T) {
	t.Parallel()
	require.Equal(t, fail("upgrade to PostgreSQL 14 or newer", "PostgreSQL 13.23 is too old, 14 is the oldest that is supported"), judgeVersion(130023, "13.23"))
	require.Equal(t, ok("PostgreSQL 14.0"), judgeVersion(140000, "14.0"))
}

// The schema may be any that search_path names.
func TestNoDriftInASchemaOfItsOwn(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(outboxtest.EmptyDB(t).URL)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = `"my.Shop"`
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `CREATE SCHEMA "my.Shop"`)
	require.NoError(t, err)
	_, err = migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	for _, index := range []bool{false, true} {
		found, compared, err := drift(t.Context(), pool, func(o object) bool { return (o.Kind == "index") == index })
		require.NoError(t, err)
		require.Empty(t, found)
		require.Greater(t, compared, 10)
	}
}

// The types of three columns differ between installations.
func TestNoDriftInAnyShape(t *testing.T) {
	t.Parallel()
	for _, shape := range outboxtest.Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.ShapedDB(t, shape).Pool
			for _, index := range []bool{false, true} {
				found, _, err := drift(t.Context(), pool, func(o object) bool { return (o.Kind == "index") == index })
				require.NoError(t, err)
				require.Empty(t, found)
			}
			enums, err := Database{Pool: &pgread.DB{Pool: pool}, EventTypes: []string{"order.ready"}}.enums(t.Context())
			require.NoError(t, err)
			require.Equal(t, shape.Types == migrate.TypesEnum, len(enums) > 0, "text knows no list of values")
			_, err = pool.Exec(t.Context(), `DROP INDEX outbox_dlq_open_aggregate_idx; DROP TRIGGER outbox_dlq_refuse_update ON outbox_dlq;
				ALTER TABLE outbox_dlq ALTER COLUMN aggregate_id TYPE varchar(200)`)
			require.NoError(t, err)
			found, err := Drift(t.Context(), pool)
			require.NoError(t, err)
			require.Subset(t, found, fail("restore the schema from a backup: outboxctl does not convert columns",
				"column outbox_dlq.aggregate_id is character varying(200) not null, expected is the type it has in outbox_events not null"))
		})
	}
}

// What another owner put on the table is named while it can keep events out.
func TestForeignObjectsAreNamed(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	found, err := Database{Pool: &pgread.DB{Pool: pool}}.foreign(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = pool.Exec(t.Context(), `CREATE UNIQUE INDEX "Their" ON outbox_events (aggregate_id); CREATE INDEX ON outbox_events (created_at);
		CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE TRIGGER after AFTER INSERT ON outbox_events FOR EACH ROW EXECUTE FUNCTION f();
		CREATE TRIGGER before BEFORE INSERT ON outbox_events FOR EACH ROW EXECUTE FUNCTION f()`)
	require.NoError(t, err)
	found, err = Database{Pool: &pgread.DB{Pool: pool}}.foreign(t.Context())
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Contains(t, found[0].Message, "trigger before on outbox_events")
	require.Equal(t, Finding{Level: Warn, Message: "unique index Their on outbox_events is not outboxctl's: an event that it keeps out makes outbox_emit fail with OX008",
		Remedy: `make sure that no two events share its values, or DROP INDEX CONCURRENTLY "Their"`}, found[1])
}

func TestDrift(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		make   string
		says   []string
		remedy string // fixes it when it is run, where it is a statement
	}{
		"view dropped": {`DROP VIEW outbox_event_status`, []string{"view outbox_event_status is missing"},
			"create it as migrations/00005_create_leases.sql of this version does, or restore the schema from a backup"},
		"table dropped": {`DROP TABLE inbox_events`, []string{"table inbox_events is missing"},
			"create it as migrations/00006_create_consumers.sql of this version does, or restore the schema from a backup"},
		"function dropped": {`DROP FUNCTION outbox_emit_many(jsonb)`, []string{"function outbox_emit_many(jsonb) is missing"},
			"create it as migrations/00007_create_catalogue.sql of this version does, or restore the schema from a backup"},
		"function changed": {`CREATE OR REPLACE FUNCTION outbox_field_bytes(n int) RETURNS int LANGUAGE sql AS 'SELECT 1'`,
			[]string{"function outbox_field_bytes(integer) is not the one that migrate created"},
			"create it as migrations/00007_create_catalogue.sql of this version does, or restore the schema from a backup"},
		"function open to what others create": {`ALTER FUNCTION outbox_emit_many(jsonb) SET search_path = public`,
			[]string{"function outbox_emit_many(jsonb) is not the one that migrate created"},
			"create it as migrations/00007_create_catalogue.sql of this version does, or restore the schema from a backup"},
		"trigger disabled": {`ALTER TABLE outbox_events DISABLE TRIGGER outbox_events_refuse_delete`,
			[]string{"trigger outbox_events.outbox_events_refuse_delete is disabled, expected is enabled"},
			"ALTER TABLE outbox_events ENABLE TRIGGER outbox_events_refuse_delete"},
		"trigger dropped": {`DROP TRIGGER outbox_audit_refuse_delete ON outbox_audit`, []string{"trigger outbox_audit.outbox_audit_refuse_delete is missing"}, ""},
		"all triggers disabled": {`ALTER TABLE outbox_dlq DISABLE TRIGGER USER`, []string{
			"trigger outbox_dlq.outbox_dlq_count_delete is disabled, expected is enabled",
			"trigger outbox_dlq.outbox_dlq_count_insert is disabled, expected is enabled",
			"trigger outbox_dlq.outbox_dlq_count_update is disabled, expected is enabled",
			"trigger outbox_dlq.outbox_dlq_refuse_content is disabled, expected is enabled",
			"trigger outbox_dlq.outbox_dlq_refuse_delete is disabled, expected is enabled",
			"trigger outbox_dlq.outbox_dlq_refuse_truncate is disabled, expected is enabled",
			"trigger outbox_dlq.outbox_dlq_refuse_update is disabled, expected is enabled",
		}, ""},
		"column nullable": {`ALTER TABLE outbox_events ALTER COLUMN attempt_count DROP NOT NULL`,
			[]string{"column outbox_events.attempt_count is integer, expected is integer not null"},
			"ALTER TABLE outbox_events ALTER COLUMN attempt_count SET NOT NULL"},
		"column of another type": {`ALTER TABLE outbox_publishers ALTER COLUMN pid TYPE numeric`,
			[]string{"column outbox_publishers.pid is numeric not null, expected is integer not null"},
			"ALTER TABLE outbox_publishers ALTER COLUMN pid TYPE integer"},
		"primary key dropped": {`ALTER TABLE outbox_publishers DROP CONSTRAINT outbox_publishers_pkey`,
			[]string{"constraint outbox_publishers.primary key is missing"}, "ALTER TABLE outbox_publishers ADD PRIMARY KEY (id)"},
		"wake switched off, an index and a column more": {`ALTER TABLE outbox_events DISABLE TRIGGER outbox_events_wake;
			ALTER TABLE outbox_dlq ADD COLUMN note text; CREATE INDEX ON outbox_dlq (note)`, nil, ""},
		"primary key of another name": {`ALTER INDEX outbox_events_pkey RENAME TO pk`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.DB(t).Pool
			_, err := pool.Exec(t.Context(), tc.make)
			require.NoError(t, err)
			found, err := Drift(t.Context(), pool)
			require.NoError(t, err)
			var says []string
			for _, f := range found {
				require.Equal(t, Fail, f.Level)
				says = append(says, f.Message)
			}
			require.Equal(t, tc.says, says)
			if tc.remedy != "" {
				require.Equal(t, tc.remedy, found[0].Remedy)
			}
			for _, f := range found {
				if strings.HasPrefix(f.Remedy, "create it") {
					return
				}
				_, err := pool.Exec(t.Context(), f.Remedy)
				require.NoError(t, err, f.Remedy)
			}
			found, err = Drift(t.Context(), pool)
			require.NoError(t, err)
			require.Empty(t, found)
		})
	}
}
