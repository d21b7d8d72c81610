package doctor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/migrations"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

// examine returns the findings of one check of the database.
func examine(t *testing.T, pool *pgxpool.Pool, check string, change func(*doctor.Database)) []doctor.Finding {
	t.Helper()
	d := doctor.Database{
		Pool: &pgread.DB{Pool: pool, Limits: pgread.Within(pgread.DefaultTimeout)}, EventTypes: registry.New().EventTypes(),
		ExecMode: "cache_statement", XminHeldFor: doctor.DefaultXminHeldFor, LockWait: doctor.DefaultLockWait, Now: time.Now,
	}
	if change != nil {
		change(&d)
	}
	var found []doctor.Finding
	for _, f := range doctor.Examine(t.Context(), append(d.Checks(), d.TableChecks()...)) {
		if f.Check == check {
			found = append(found, f)
		}
	}
	return found
}

func run(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func TestHealthyDatabase(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	for _, check := range []string{"version", "clock", "pooler", "rights", "enums", "indexes", "vacuum", "xmin", "leases", "order"} {
		found := examine(t, pool, check, nil)
		require.Len(t, found, 1, check)
		require.Equal(t, doctor.OK, found[0].Level, "%+v", found[0])
		require.Equal(t, "database", found[0].Area)
	}
}

// The databases of these tests are copies of one, rights included.
func TestRolesWithRightsInAnotherDatabase(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	run(t, pool, `REVOKE ALL ON outbox_events FROM outbox_viewer`)
	found := examine(t, pool, "roles", nil)
	require.Len(t, found, 1)
	require.Equal(t, doctor.Warn, found[0].Level)
	require.Contains(t, found[0].Message, "outbox_dispatcher, outbox_emitter, outbox_operator have rights in ")
}

// In the second database of a server the roles exist, but have no rights: those belong to a database.
func TestRolesWithoutRightsHere(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	pool := db.Pool
	_, err := migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	found := examine(t, pool, "roles", nil)
	require.Len(t, found, 1)
	require.Equal(t, doctor.Warn, found[0].Level)
	require.Contains(t, found[0].Message, "without rights in this database: outbox_dispatcher, outbox_emitter, outbox_operator, outbox_viewer;")
	require.Contains(t, found[0].Remedy, "outboxctl migrate grants --viewer")

	names := map[string]string{}
	for _, role := range migrate.Roles() {
		names[role] = role + "_of_" + db.Name
		run(t, pool, "CREATE ROLE "+names[role])
	}
	statements, err := migrate.Grants(migrations.FS, names)
	require.NoError(t, err)
	for _, s := range statements {
		run(t, pool, s)
	}
	found = examine(t, pool, "roles", nil)
	require.Equal(t, doctor.OK, found[0].Level)
	require.Contains(t, found[0].Message, names["outbox_viewer"])
}

func TestAilments(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		make  string
		check string
		level doctor.Level
		says  string
	}{
		"PUBLIC may create": {`GRANT CREATE ON SCHEMA public TO PUBLIC`, "rights", doctor.Fail, "PUBLIC may create in schema public"},
		"missing index":     {`DROP INDEX outbox_events_seq_claim_idx`, "indexes", doctor.Fail, "outbox_events_seq_claim_idx"},
		// As an interrupted CREATE INDEX CONCURRENTLY leaves it.
		"invalid index": {`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_events_seq_claim_idx'::regclass`,
			"indexes", doctor.Fail, "outbox_events_seq_claim_idx"},
		"missing index of the dead letters": {`DROP INDEX outbox_dlq_open_idx`, "indexes", doctor.Fail, "outbox_dlq_open_idx"},
		"index on something else": {`DROP INDEX outbox_audit_at_idx; CREATE INDEX outbox_audit_at_idx ON outbox_audit (actor)`,
			"indexes", doctor.Fail, "(actor), expected is CREATE INDEX outbox_audit_at_idx ON outbox_audit USING btree (at DESC"},
		"autovacuum off":                {`ALTER TABLE outbox_events SET (autovacuum_enabled = false)`, "vacuum", doctor.Fail, "switched off"},
		"autovacuum off in other words": {`ALTER TABLE outbox_events SET (autovacuum_enabled = OFF)`, "vacuum", doctor.Fail, "switched off"},
		"strange enum value":            {`ALTER TYPE event_type_enum ADD VALUE 'order_teleported'`, "enums", doctor.Warn, "order_teleported"},
		"abandoned lease": {`INSERT INTO outbox_leases (owner, until, seqs) VALUES (gen_random_uuid(), now() - interval '1 minute', '{[1,2)}')`,
			"leases", doctor.Warn, "expired leases: 1"},
		"lease without end": {`INSERT INTO outbox_leases (owner, until, seqs) VALUES (gen_random_uuid(), now() + interval '1 day', '{[1,2)}')`,
			"leases", doctor.Warn, "leases for more than an hour: 1"},
		"seq in blocks": {`ALTER TABLE outbox_events ALTER COLUMN seq SET CACHE 20`, "order", doctor.Fail, "blocks of 20"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.DB(t).Pool
			run(t, pool, tc.make)
			found := examine(t, pool, tc.check, nil)
			require.Len(t, found, 1)
			require.Equal(t, tc.level, found[0].Level)
			require.Contains(t, found[0].Message, tc.says)
			require.NotEmpty(t, found[0].Remedy)
			if tc.check != "indexes" && tc.check != "vacuum" {
				return
			}
			for statement := range strings.SplitSeq(found[0].Remedy, "; ") {
				run(t, pool, statement)
			}
			require.Equal(t, doctor.OK, examine(t, pool, tc.check, nil)[0].Level, "the remedy fixes it")
		})
	}
}

func TestEnumValueThatTheDatabaseLacks(t *testing.T) {
	t.Parallel()
	found := examine(t, outboxtest.DB(t).Pool, "enums", func(d *doctor.Database) { d.EventTypes = append(d.EventTypes, "order_teleported") })
	require.Equal(t, doctor.Fail, found[0].Level)
	require.Contains(t, found[0].Message, "order_teleported")
}

func TestClocksThatDisagree(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	for _, wrong := range []time.Duration{-time.Hour, time.Hour} {
		found := examine(t, pool, "clock", func(d *doctor.Database) { d.Now = func() time.Time { return time.Now().Add(wrong) } })
		require.Equal(t, doctor.Warn, found[0].Level)
		require.Contains(t, found[0].Message, "apart")
	}
}

func TestTheSessionThatPinsXminIsNamed(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	var pid string
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT pg_backend_pid()::text FROM outbox_events RIGHT JOIN (SELECT 1) AS one ON true`).Scan(&pid))
	found := examine(t, pool, "xmin", func(d *doctor.Database) { d.XminHeldFor = 0 })
	var said string
	for _, f := range found {
		require.Equal(t, doctor.Warn, f.Level)
		said += f.Message + "\n"
	}
	require.Contains(t, said, "session "+pid+" ")
}

// A check that cannot be made is a finding, and the others are made all the same.
func TestAFailingCheckStopsNoOther(t *testing.T) {
	t.Parallel()
	found := doctor.Examine(t.Context(), []doctor.Check{
		{Area: "a", Name: "broken", Remedy: "fix it", Run: func(context.Context) ([]doctor.Finding, error) { return nil, errors.New("no way") }},
		{Area: "a", Name: "fine", Run: func(context.Context) ([]doctor.Finding, error) { return []doctor.Finding{{Level: doctor.OK}}, nil }},
	})
	require.Equal(t, []doctor.Finding{
		{Area: "a", Check: "broken", Level: doctor.Fail, Message: "check failed: no way", Remedy: "fix it"},
		{Area: "a", Check: "fine", Level: doctor.OK},
	}, found)
	require.Equal(t, doctor.Fail, doctor.Worst(found))
	require.Equal(t, doctor.OK, doctor.Worst(found[1:]))
}
