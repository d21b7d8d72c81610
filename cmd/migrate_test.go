package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMigrateExitCodes(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	env := []string{"DATABASE_URL=" + db.URL}
	steps, err := migrate.Status(t.Context(), db.Pool, migrate.Options{})
	require.NoError(t, err)
	newest := steps[len(steps)-1].Version

	for _, tc := range []struct {
		name string
		args []string
		want int
		out  string
		talk string
	}{
		{"status of nothing", []string{"migrate", "status"}, cli.ExitOK, "\tpending\t", ""},
		{"dry run", []string{"migrate", "--dry-run"}, cli.ExitOK, "CREATE TABLE outbox_events", ""},
		{"nothing was done so far", []string{"migrate", "version", "-o", "json"}, cli.ExitOK, `"database": 0`, ""},
		{"no such version", []string{"migrate", "--to", "99999"}, cli.ExitNotFound, "", "hint: outboxctl migrate status"},
		{"negative version", []string{"migrate", "--to", "-1"}, cli.ExitUsage, "", "not negative"},
		{"not a duration", []string{"migrate", "--lock-timeout", "soon"}, cli.ExitUsage, "", "not a duration"},
		{"no lock timeout", []string{"migrate", "--lock-timeout", "0s"}, cli.ExitUsage, "", "less than 1ms"},
		{"not a command", []string{"migrate", "sideways"}, cli.ExitUsage, "", `unknown command "sideways" for "outboxctl migrate"`},
		{"first step", []string{"migrate", "--to", "1"}, cli.ExitOK, "schema version 1 (was 0): 1 applied", "applied 00001_create_events.sql"},
		{"bare migrate is up", []string{"migrate"}, cli.ExitOK, "(was 1)", ""},
		{"again", []string{"migrate"}, cli.ExitOK, "nothing to do", ""},
		{"applied", []string{"migrate", "status"}, cli.ExitOK, "\tapplied\t", ""},
	} {
		code, out, talk := runCLI(t, env, tc.args...)
		require.Equal(t, tc.want, code, "%s: %s", tc.name, talk)
		require.Contains(t, out, tc.out, tc.name)
		require.Contains(t, talk, tc.talk, tc.name)
		if code != cli.ExitOK {
			require.Empty(t, out, tc.name)
		}
	}

	_, err = db.Pool.Exec(t.Context(), "INSERT INTO outbox_schema_version (version_id, is_applied) VALUES ($1, true)", newest+1)
	require.NoError(t, err)
	code, _, talk := runCLI(t, env, "migrate")
	require.Equal(t, cli.ExitPrecondition, code, "the database is newer than the binary")
	require.Contains(t, talk, "hint: use the outboxctl version")
	_, out, _ := runCLI(t, env, "migrate", "status")
	require.Contains(t, out, "\tunknown\t")
}

// A table that is in the way stops the run: nothing done is a failure, something done is partly done.
func TestMigrateFailures(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	env := []string{"DATABASE_URL=" + db.URL}
	_, err := db.Pool.Exec(t.Context(), "CREATE TABLE outbox_events (id int)")
	require.NoError(t, err)
	code, out, talk := runCLI(t, env, "migrate", "--dry-run")
	require.Equal(t, cli.ExitPrecondition, code)
	require.Empty(t, out, "nothing would run")
	require.Contains(t, talk, "  id is integer, needed is uuid\n      ALTER TABLE outbox_events ALTER COLUMN id TYPE uuid USING id::uuid;\n")
	require.Contains(t, talk, "hint: run the statements above")
	code, _, talk = runCLI(t, env, "migrate")
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, talk, "error: migration 00001_create_events.sql: ")
	require.Contains(t, talk, "has another shape")
	require.Contains(t, talk, "hint: ")
	_, err = db.Pool.Exec(t.Context(), "DROP TABLE outbox_events; CREATE TABLE outbox_dlq ()")
	require.NoError(t, err)
	code, _, talk = runCLI(t, env, "migrate")
	require.Equal(t, cli.ExitPartial, code)
	require.Contains(t, talk, "applied 00003_index_events.sql")
	require.Contains(t, talk, "error: migration 00004_create_dead_letters.sql: ")
	_, err = db.Pool.Exec(t.Context(), "DROP TABLE outbox_dlq")
	require.NoError(t, err)
	code, _, talk = runCLI(t, env, "migrate")
	require.Equal(t, cli.ExitOK, code, talk)
	code, out, talk = runCLI(t, env, "migrate", "--dry-run")
	require.Equal(t, cli.ExitOK, code, talk)
	require.Empty(t, out)
	require.Contains(t, talk, "nothing to do.\n")
	code, _, talk = runCLI(t, env, "migrate", "--dry-run", "--types", "text")
	require.Equal(t, cli.ExitPrecondition, code)
	require.Contains(t, talk, "event types are to be text, but the outbox has them as enum")
}

func TestMigrateWhileTheTableIsHeld(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	env := []string{"DATABASE_URL=" + db.URL}
	code, _, talk := runCLI(t, env, "migrate", "--to", "1")
	require.Equal(t, cli.ExitOK, code, talk)
	tx, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM outbox_events")
	require.NoError(t, err)
	code, _, talk = runCLI(t, env, "migrate", "--lock-timeout", "10ms", "--retry-for", "0s")
	require.Equal(t, cli.ExitPrecondition, code)
	require.Contains(t, talk, "hint: long transactions hold the table")
}

func TestMigrateStatusJSON(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	code, out, talk := runCLI(t, []string{"DATABASE_URL=" + db.URL}, "migrate", "status", "-o", "json")
	require.Equal(t, cli.ExitOK, code, talk)
	var entries []migrate.StepStatus
	require.NoError(t, json.Unmarshal([]byte(out), &entries))
	require.Equal(t, int64(1), entries[0].Version)
	require.Equal(t, "00001_create_events.sql", entries[0].Name)
	require.Equal(t, "applied", entries[0].State)
	require.NotNil(t, entries[0].AppliedAt)
}

// A deployment is told about rights even when there is nothing else to do.
func TestMigrateWarnsOfStrangersInTheSchema(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	for _, tc := range []struct{ sql, says string }{
		{"REVOKE CREATE ON SCHEMA public FROM PUBLIC", ""},
		{"GRANT CREATE ON SCHEMA public TO PUBLIC", "warning: PUBLIC may create in schema public, and so run code as the roles that use the outbox; REVOKE CREATE ON SCHEMA public FROM PUBLIC\n"},
	} {
		_, err := db.Pool.Exec(t.Context(), tc.sql)
		require.NoError(t, err)
		code, _, talk := runCLI(t, []string{"DATABASE_URL=" + db.URL}, "migrate")
		require.Equal(t, cli.ExitOK, code, talk)
		require.Equal(t, tc.says, talk)
	}
}

// The roles of these tests belong to the database that all others are copied from.
func TestMigrateTellsOfRolesThatAreNotItsOwn(t *testing.T) {
	t.Parallel()
	require.NotNil(t, outboxtest.DB(t)) // makes that database
	code, _, talk := runCLI(t, []string{"DATABASE_URL=" + outboxtest.EmptyDB(t).URL}, "migrate")
	require.Equal(t, cli.ExitOK, code, talk)
	require.Contains(t, talk, "nothing granted to outbox_emitter, outbox_dispatcher, outbox_operator, outbox_viewer: they have rights elsewhere")
}

func TestMigrateGrantsNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	code, out, talk := runCLI(t, nil, "migrate", "grants", "--viewer", "Gra\"fana", "--emitter", "shop_api")
	require.Equal(t, cli.ExitOK, code, talk)
	require.Contains(t, out, "GRANT EXECUTE ON FUNCTION outbox_emit_many, ")
	require.Contains(t, out, "GRANT EXECUTE ON FUNCTION outbox_claimable TO \"Gra\"\"fana\";\n")
	require.NotContains(t, out, "TO outbox_", "to whom nothing was asked for gets nothing")
	code, _, _ = runCLI(t, nil, "migrate", "grants", "--viewer", "")
	require.Equal(t, cli.ExitUsage, code)
}

// Who starts from nothing is told once which types the tables get, and how to get others.
func TestMigrateNamesThePreset(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args  []string
		tells bool
	}{{nil, true}, {[]string{"--types", "text"}, false}, {[]string{"--catalogue", "packfinderz"}, false}} {
		db := outboxtest.EmptyDB(t)
		for _, tells := range []bool{tc.tells, false} {
			var out, talk bytes.Buffer
			code := Run(t.Context(), append([]string{"migrate"}, tc.args...), cli.Streams{
				In: strings.NewReader(""), Out: &out, Err: &talk, InTTY: true, ErrTTY: true,
			}, []string{"DATABASE_URL=" + db.URL, "NO_COLOR=1"})
			require.Equal(t, cli.ExitOK, code, talk.String())
			require.Equal(t, tells, strings.Contains(talk.String(), "PackFinderz preset"), talk.String())
		}
	}
}

// A catalogue of one's own needs columns that can hold its types.
func TestMigrateWithACatalogueFileMakesText(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.yaml")
	require.NoError(t, os.WriteFile(file, []byte("outbox: 1\nname: shop\ntopics: {orders: shop-orders}\ntypes:\n  order.ready: {topic: orders, aggregate: order}\n"), 0o600))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--catalogue", file}, "text"},
		{[]string{"--catalogue", file, "--types", "enum"}, "event_type_enum"},
		{[]string{"--catalogue", "packfinderz"}, "event_type_enum"},
	} {
		db := outboxtest.EmptyDB(t)
		env := []string{"DATABASE_URL=" + db.URL}
		code, out, talk := runCLI(t, env, append([]string{"migrate", "--dry-run"}, tc.args...)...)
		require.Equal(t, cli.ExitOK, code, talk)
		require.Contains(t, talk, "There is no table outbox_events")
		require.Contains(t, out, "CREATE TABLE outbox_events (")
		code, _, talk = runCLI(t, env, append([]string{"migrate"}, tc.args...)...)
		require.Equal(t, cli.ExitOK, code, talk)
		var found string
		require.NoError(t, db.Pool.QueryRow(t.Context(),
			`SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'outbox_events'::regclass AND attname = 'event_type'`).Scan(&found))
		require.Equal(t, tc.want, found)
		code, _, talk = runCLI(t, env, "migrate", "--catalogue", file)
		require.Equal(t, cli.ExitOK, code, talk)
	}
}
