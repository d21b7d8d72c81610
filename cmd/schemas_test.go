package cmd_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// contextsFile writes a configuration with a context for each database, on one broker.
func (r *publishRig) contextsFile(urls map[string]string) (path string) {
	r.t.Helper()
	var b strings.Builder
	b.WriteString("contexts:\n")
	for name, url := range urls {
		fmt.Fprintf(&b, "  %s: {database: {url: %q}, pubsub: {project: %s, emulator: %q}}\n", name, url, r.pubsub.Project, r.pubsub.Addr())
	}
	path = filepath.Join(r.t.TempDir(), "outboxctl.yaml")
	require.NoError(r.t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// Two outboxes live in schemas of one database, from migrate to the page. What is done in one never shows in the other. One
// name must be quoted.
func TestTwoOutboxesInOneDatabase(t *testing.T) {
	t.Parallel()
	r := publishRigOn(t, outboxtest.EmptyDB(t))
	require.NoError(t, r.sql(`CREATE SCHEMA billing; CREATE SCHEMA "My Shop"`))
	file := r.contextsFile(map[string]string{
		"billing": r.db.URL + "&search_path=billing", "shop": r.db.URL + "&search_path=%22My%20Shop%22",
	})
	in := func(context, line string) string {
		t.Helper()
		return r.do(line + " --config " + file + " --context " + context)
	}
	emit := func(context string, n int) {
		t.Helper()
		for range n {
			in(context, "emit --type ad_paused --data {} --aggregate-id "+uuid.NewString())
		}
	}
	ids := func(context, what string) []string {
		t.Helper()
		return strings.Fields(in(context, what+" -o id"))
	}
	for _, context := range []string{"billing", "shop"} {
		in(context, "migrate")
	}
	require.Zero(t, r.count(`SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname ~ '^(out|in)box'`))
	emit("billing", 2)
	emit("shop", 3)
	require.NoError(t, r.sql(`INSERT INTO "My Shop".outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
		VALUES (gen_random_uuid(), 'ad_paused', 'media', gen_random_uuid(), '{}')`))
	in("billing", "pause --topic domain --yes")

	in("billing", "publish --once")
	code, _, talk := r.run("publish", "--once", "--config", file, "--context", "shop")
	require.Equal(t, 5, code, talk)
	require.Contains(t, talk, "error: 3 events published, but 1 died")
	require.Len(t, ids("billing", "event list --status published"), 2)
	require.Len(t, ids("shop", "event list --status published"), 3)
	require.Len(t, r.stored(), 5)
	require.Empty(t, ids("billing", "dlq list"))
	dead := ids("shop", "dlq list")
	require.Len(t, dead, 1)
	require.Empty(t, ids("shop", "pause list"))
	for context, letters := range map[string]int{"billing": 0, "shop": 1} {
		in(context, "check")
		page := startService(t, r.env(), "ui", "--addr", "127.0.0.1:0", "--auth", "none", "--config", file, "--context", context)
		var address string
		eventually(t, "the page is served", func() bool {
			address = regexp.MustCompile(`http://[0-9.:]+/`).FindString(page.output())
			return address != ""
		})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"dead-letters", nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", context, body)
		require.Equal(t, letters > 0, strings.Contains(string(body), dead[0]), context)
	}

	in("shop", "dlq discard "+dead[0]+" --yes")
	require.Len(t, ids("shop", "audit"), 1)
	require.Len(t, ids("billing", "audit"), 1) // the pause
}
