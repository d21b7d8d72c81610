package cmd

import (
	"bytes"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestDoctorFindsSchemaDrift(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	w.ok("topic", "ensure")
	require.Contains(t, w.ok("doctor"), "ok\tdatabase\tschema\t")
	_, err := w.db.Pool.Exec(t.Context(), `
DROP VIEW outbox_event_status;
ALTER TABLE outbox_events DISABLE TRIGGER USER;
ALTER TABLE outbox_events ALTER COLUMN attempt_count DROP NOT NULL;
DROP FUNCTION outbox_emit_many(jsonb);
DROP INDEX outbox_dlq_open_idx;
ALTER TABLE outbox_events SET (autovacuum_enabled = off)`)
	require.NoError(t, err)
	out := w.fails(cli.ExitFailed, "doctor")
	for _, line := range []string{
		"fail\tdatabase\tschema\tview outbox_event_status is missing\t",
		"fail\tdatabase\tschema\ttrigger outbox_events.outbox_events_refuse_delete is disabled, expected is enabled\t",
		"fail\tdatabase\tschema\tcolumn outbox_events.attempt_count is integer, expected is integer not null\t",
		"fail\tdatabase\tschema\tfunction outbox_emit_many(jsonb) is missing\t",
		"fail\tdatabase\tindexes\tindex outbox_dlq_open_idx is missing\tCREATE INDEX CONCURRENTLY outbox_dlq_open_idx ON outbox_dlq ",
		"fail\tdatabase\tvacuum\tautovacuum is switched off for outbox_events\t",
	} {
		require.Contains(t, out, line)
	}
	require.NotContains(t, out, "ok\tdatabase\tschema")
}

// Of an empty database only the missing schema is said: no table is fine, and none is broken.
func TestDoctorOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	code, out, _ := runCLI(t, []string{"DATABASE_URL=" + outboxtest.EmptyDB(t).URL}, "doctor")
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, 1, strings.Count(out, "fail\t"), out)
	require.Contains(t, out, "fail\tdatabase\tschema\tthe schema is at version 0 of ")
	require.NotContains(t, out, "indexes")
}

// A Redis that may forget is not one that keeps the marks.
func TestDoctorWarnsOfEviction(t *testing.T) {
	t.Parallel()
	server, rdb := outboxtest.RedisServer(t)
	w := newEventWorld(t)
	w.env = append(w.env, "REDIS_URL="+server.URL())
	require.Contains(t, w.fails(cli.ExitFailed, "doctor"), "ok\tredis\tkeys\t")
	require.NoError(t, rdb.Client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	out := w.fails(cli.ExitFailed, "doctor")
	require.Contains(t, out, "warn\tredis\tkeys\tredis maxmemory-policy is allkeys-lru")
	require.NotContains(t, out, "ok\tredis")
}

// A finding is never cut.
func TestFindingsAreBrokenIntoLinesNotCut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	app := cli.NewApp(cli.Streams{Out: &out, OutTTY: true, Width: 80}, []string{"NO_COLOR=1"})
	finding := doctor.Finding{
		Area: "database", Check: "indexes", Level: doctor.Fail, Message: "index outbox_dlq_open_idx is missing",
		Remedy: "CREATE INDEX CONCURRENTLY outbox_dlq_open_idx ON outbox_dlq USING btree (failed_at DESC, id DESC) WHERE state = 'open'::text",
	}
	require.NoError(t, cli.WriteList(app, cli.Output{Format: cli.FormatTable}, doctorView(), []doctor.Finding{finding}))
	require.NotContains(t, out.String(), "…")
	var words []string
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, ansi.StringWidth(strings.TrimRight(line, "\n")), 80)
		words = append(words, strings.Fields(line)...)
	}
	for _, word := range strings.Fields(finding.Message + " " + finding.Remedy) {
		require.Contains(t, words, word)
	}
}

// A producer's machine has no Redis, and nothing there needs one. Whoever configures one is told that it does not answer.
func TestDoctorNeedsRedisOnlyWhereItIsConfigured(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := []string{"HOME=" + home, "DATABASE_URL=" + outboxtest.DB(t).URL}
	away := "redis://127.0.0.1:1/0"
	require.NoError(t, os.WriteFile(home+"/c.yaml", []byte("contexts:\n  p:\n    database:\n      url: "+env[1][len("DATABASE_URL="):]+"\n"), 0o600))
	code, out, _ := runCLI(t, env, "doctor", "--config", home+"/c.yaml", "--context", "p")
	require.Equal(t, cli.ExitOK, code, out)
	require.Contains(t, out, "ok\tredis\tkeys\tno Redis is configured; only consumers need one")
	code, out, _ = runCLI(t, append(env, "REDIS_URL="+away), "doctor")
	require.Equal(t, cli.ExitFailed, code, out)
	require.Contains(t, out, "fail\tredis\tkeys\tcheck failed: ")
}

// A server that has no connection left is told from one that is away.
func TestDoctorKnowsThatNoConnectionIsLeft(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), "CREATE ROLE full_"+db.Name+" LOGIN PASSWORD 'x' CONNECTION LIMIT 0")
	require.NoError(t, err)
	at, err := url.Parse(db.URL)
	require.NoError(t, err)
	at.User = url.UserPassword("full_"+db.Name, "x")
	code, out, _ := runCLI(t, []string{"HOME=" + t.TempDir(), "DATABASE_URL=" + at.String()}, "doctor")
	require.Equal(t, cli.ExitFailed, code, out)
	require.Contains(t, out, `no connection is left: too many connections for role "full_`+db.Name+`"`)
	require.Contains(t, out, "raise max_connections (or the CONNECTION LIMIT of the role or database)")
	require.NotContains(t, out, "config view")
}
