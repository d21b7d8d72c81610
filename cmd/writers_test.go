package cmd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// writerWorld is an installation in which every command that writes has something to do, and a configuration file whose contexts
// open and guarded both name it; guarded is read-only.
type writerWorld struct {
	*eventWorld

	fake *devstack.PubSub
	// dead and discarded are dead letters; run is the one that discarded it, plan one that is ready.
	dead, discarded, run, plan string
	// published and waiting are events: one published long ago, and one that backs off.
	published, waiting string
}

const (
	contextOpen    = "open"
	contextGuarded = "guarded"
)

func newWriterWorld(t *testing.T) *writerWorld {
	t.Helper()
	w := &writerWorld{eventWorld: &eventWorld{t: t, db: outboxtest.DB(t), rdb: outboxtest.Redis(t)}, fake: outboxtest.PubSub(t)}
	w.env = []string{"HOME=" + t.TempDir(), "OUTBOXCTL_ACTOR=ann", "OUTBOXCTL_CONFIG=" + w.config(w.db.URL), "OUTBOXCTL_CONTEXT=" + contextOpen}
	w.ok("topic", "ensure")
	id := func(sql string) (id string) {
		require.NoError(t, w.db.Pool.QueryRow(t.Context(), sql).Scan(&id))
		return id
	}
	const event = `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, %s)
		VALUES (outbox_uuid_v7(), 'license_status_changed', 'license', gen_random_uuid(), jsonb_build_object('version', 1, 'data',
		jsonb_build_object('licenseId', gen_random_uuid(), 'storeId', gen_random_uuid(), 'status', 'verified')), now() - interval '3 days', %s) RETURNING id::text`
	letter := func() string {
		dead := id(fmt.Sprintf(event, "dead_at, attempt_count, last_error", "now() - interval '1 day', 10, 'no'"))
		return id(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, fingerprint, event_created_at)
			SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', last_error, 10, dead_at, 'domain', 'f', created_at
			  FROM outbox_events WHERE id = '` + dead + `' RETURNING id::text`)
	}
	w.dead, w.discarded = letter(), letter()
	w.ok("dlq", "replay", w.dead, "--plan")
	w.plan = id(`SELECT id::text FROM outbox_plans`)
	w.ok("dlq", "discard", w.discarded, "--yes")
	w.run = id(`SELECT detail ->> 'runId' FROM outbox_audit WHERE action = 'dlq.discard'`)
	w.ok("pause", "--type", "media_uploaded", "--yes")
	w.published = id(fmt.Sprintf(event, "published_at", "now() - interval '2 days'"))
	w.waiting = id(fmt.Sprintf(event, "attempt_count, last_error, next_attempt_at", "1, 'no', now() + interval '1 hour'"))
	w.ok(append([]string{"emit"}, writers()["emit"].args(w)...)...)
	guard, err := consume.New(w.rdb.Client, "compliance", consume.Options{})
	require.NoError(t, err)
	_, err = guard.CheckAndMarkProcessed(t.Context(), uuid.MustParse(w.published), consume.DefaultTTL)
	require.NoError(t, err)
	return w
}

// config writes a configuration file whose contexts reach the database by url.
func (w *writerWorld) config(url string) string {
	w.t.Helper()
	text := "contexts:\n"
	for name, mark := range map[string]string{contextOpen: "", contextGuarded: "    production: true\n    read_only: true\n"} {
		text += fmt.Sprintf("  %s:\n%s    database: {url: %q}\n    redis: {url: %q}\n    pubsub: {project: %q, emulator: %q}\n", name, mark, url, w.rdb.URL, w.fake.Project, w.fake.Addr())
	}
	file := filepath.Join(w.t.TempDir(), "outboxctl.yaml")
	require.NoError(w.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// catalogue writes a file of the built-in types and one more.
func (w *writerWorld) catalogue() string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "catalogue.yaml")
	more := "\n  license_renewed: {topic: domain, aggregate: license}\n"
	require.NoError(w.t, os.WriteFile(file, []byte(strings.Replace(w.ok("registry", "export", "packfinderz"), "\ntypes:\n", "\ntypes:"+more, 1)), 0o600))
	return file
}

// A writer is a command that writes, and how to make it do so.
type writer struct {
	// prepare puts the world into the state that the command changes; nil: it is in it.
	prepare func(w *writerWorld)
	args    func(w *writerWorld) []string
}

// writers has every command of effects that writes.
func writers() map[string]writer {
	words := func(words ...string) func(*writerWorld) []string {
		return func(*writerWorld) []string { return words }
	}
	with := func(id func(*writerWorld) string, words ...string) func(*writerWorld) []string {
		return func(w *writerWorld) []string { return append([]string{id(w)}, words...) }
	}
	dead := func(w *writerWorld) string { return w.dead }
	published := func(w *writerWorld) string { return w.published }
	plan := func(w *writerWorld) string { return w.plan }
	behind := func(w *writerWorld) {
		_, err := w.db.Pool.Exec(w.t.Context(), `DROP FUNCTION outbox_grant(text); DELETE FROM outbox_schema_version WHERE version_id = (SELECT max(version_id) FROM outbox_schema_version)`)
		require.NoError(w.t, err)
	}
	const data = `{"licenseId":"11111111-1111-7111-8111-111111111111","storeId":"11111111-1111-7111-8111-111111111111","status":"verified"}`
	return map[string]writer{
		"audit undo":      {args: with(func(w *writerWorld) string { return w.run }, "--yes")},
		"cleanup":         {args: words("--older-than", "1d")},
		"consume":         {prepare: func(w *writerWorld) { w.ok("publish", "--once") }, args: words("--example", "--count", "1", "--http-addr", "127.0.0.1:0")},
		"dlq discard":     {args: with(dead, "--yes")},
		"dlq edit":        {args: with(dead, "--yes", "--data", data)},
		"dlq replay":      {args: with(dead, "--yes")},
		"dlq restore":     {args: with(func(w *writerWorld) string { return w.discarded }, "--yes")},
		"emit":            {args: words("--type", "license_status_changed", "--aggregate-id", "11111111-1111-7111-8111-111111111111", "--data", data)},
		"erase":           {args: with(published, "--yes")},
		"event republish": {args: with(published, "--yes")},
		"event retry":     {args: with(func(w *writerWorld) string { return w.waiting }, "--yes")},
		"consumer retry": {prepare: func(w *writerWorld) {
			_, err := w.db.Pool.Exec(w.t.Context(), `SELECT outbox_consumer_failed('compliance', $1, 'x', 'default', '', '', 's', 'e', true, 0)`, w.published)
			require.NoError(w.t, err)
		}, args: func(w *writerWorld) []string { return []string{"compliance", w.published, "--yes"} }},
		"consumer forget": {args: with(published, "--consumer", "compliance", "--note", "x", "--yes")},
		"migrate":         {prepare: behind, args: words()},
		"pause":           {args: words("--type", "order_created", "--yes")},
		"publish":         {args: words("--once", "--http-addr", "127.0.0.1:0")},
		"registry apply":  {args: func(w *writerWorld) []string { return []string{w.catalogue(), "--yes"} }},
		"resume":          {args: words("--type", "media_uploaded", "--yes")},
		"plan abandon":    {args: with(plan)},
		"plan run":        {args: with(plan, "--yes")},
		"plan stop": {prepare: func(w *writerWorld) {
			_, err := w.db.Pool.Exec(w.t.Context(), `SELECT outbox_plan_begin($1, 'bob', '', '{}')`, w.plan)
			require.NoError(w.t, err)
		}, args: with(plan)},
		"topic ensure": {args: words("--subscription", "another")},
	}
}

// moreWriting are other ways in which commands write than those of writers.
func moreWriting(w *writerWorld) [][]string {
	return [][]string{
		{"dlq", "replay", "--type", "license_status_changed", "--plan"},
		{"dlq", "discard", w.dead, "--plan"},
		{"event", "republish", "--since", "30d", "--plan"},
		{"dlq", "replay", w.dead, "--yes", "--dry-run=false"},
		{"dlq", "replay", w.dead, "--yes", "--plan=false"},
		{"migrate", "--dry-run=false"},
		{"emit", "--stdin"},
	}
}

// state is everything that can be changed: the rows and the columns of the database, the keys of Redis, and which calls that
// change something the broker got.
func (w *writerWorld) state() map[string]string {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	found := map[string]string{}
	rows, err := w.db.Pool.Query(ctx, `SELECT c.relname::text, (SELECT string_agg(a.attname, ',' ORDER BY a.attname) FROM pg_attribute AS a WHERE a.attrelid = c.oid)
		FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'`)
	require.NoError(w.t, err)
	columns := map[string]string{}
	for rows.Next() {
		var table, list string
		require.NoError(w.t, rows.Scan(&table, &list))
		columns[table] = list
	}
	require.NoError(w.t, rows.Err())
	for table, list := range columns {
		var content string
		require.NoError(w.t, w.db.Pool.QueryRow(ctx, `SELECT coalesce(string_agg(t::text, E'\n' ORDER BY t::text), '') FROM `+table+` AS t`).Scan(&content))
		found["table "+table] = list + "\n" + content
	}
	keys, err := w.rdb.Client.Keys(ctx, "*").Result()
	require.NoError(w.t, err)
	for _, key := range keys {
		found["key "+key] = w.rdb.Client.Dump(ctx, key).Val()
	}
	for method, n := range w.fake.Calls() {
		if !strings.HasPrefix(method, "Get") && !strings.HasPrefix(method, "List") {
			found["call "+method] = fmt.Sprint(n)
		}
	}
	return found
}

// unchanged sees that nothing has changed since before.
func (w *writerWorld) unchanged(before map[string]string, what string) {
	w.t.Helper()
	after := w.state()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		require.Equal(w.t, before[name], after[name], "%s changed %s", what, name)
	}
	require.Len(w.t, after, len(before), what)
}

// in runs a command in a context. One that should have ended and serves is stopped.
func (w *writerWorld) in(name string, args ...string) (code int, out, stderr string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	return RunText(ctx, append(slices.Clone(w.env), "OUTBOXCTL_CONTEXT="+name), "", args...)
}
