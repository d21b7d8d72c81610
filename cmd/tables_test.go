package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// Every list fits a terminal of 80 columns and leaves no blanks at the end of a line, whatever its rows hold.
func TestEveryTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	db, fake := outboxtest.DB(t), outboxtest.PubSub(t)
	long := strings.Repeat("a text that goes on ", 20)
	for _, sql := range []string{
		`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dead_at, attempt_count, last_error)
		 SELECT outbox_uuid_v7(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{"data": {}}', CASE WHEN n > 2 THEN now() END, 1000000, $1
		   FROM generate_series(1, 4) AS n`,
		`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, fingerprint, event_created_at)
		 SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'aggregate_mismatch', $1, 10, dead_at, 'domain', $1, created_at
		   FROM outbox_events WHERE dead_at IS NOT NULL`,
		`INSERT INTO outbox_consumer_failures (consumer, event_id, event_type, namespace, subscription, state, attempts, last_error)
		 SELECT 'mailer-of-the-other-department', id, event_type, namespace, 'a-subscription-with-a-long-name', 'gave_up', 5, $1 FROM outbox_events`,
		`INSERT INTO outbox_publishers (id, host, pid, version, state)
		 SELECT gen_random_uuid(), 'publisher-in-a-far-away-zone.example.com', 4711, 'v0.0.0-20260301120000-0123456789ab',
		        jsonb_build_object('topics', jsonb_build_array(jsonb_build_object('topic', 'domain', 'state', 'unreachable', 'since', now(), 'error', $1::text)))`,
	} {
		var args []any
		if strings.Contains(sql, "$1") {
			args = append(args, long)
		}
		_, err := db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	file := filepath.Join(t.TempDir(), "outboxctl.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "contexts:\n  production-of-the-other-department:\n    production: true\n    database: {url: %q}\n", db.URL), 0o600))
	env := []string{
		"HOME=" + t.TempDir(), "NO_COLOR=1", "OUTBOXCTL_CONFIG=" + file, "OUTBOXCTL_ACTOR=somebody.with.a.long.name@host.example.com",
		"DATABASE_URL=" + db.URL, "REDIS_URL=" + outboxtest.Redis(t).URL, "PUBSUB_EMULATOR_HOST=" + fake.Addr(), "GOOGLE_CLOUD_PROJECT=" + fake.Project,
	}
	run := func(words ...string) string {
		var out, said bytes.Buffer
		Run(t.Context(), words, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &said, OutTTY: true, Width: 80}, env)
		if strings.Count(out.String(), "\n") < 2 {
			return fmt.Sprintf("no rows, but %s ", said.String())
		}
		return out.String()
	}
	for _, words := range [][]string{
		{"pause", "--type", "order_canceled", "--yes", "--note", long}, {"dlq", "discard", "--since", "1d", "--plan", "--note", long},
	} {
		code, _, stderr := runCLI(t, env, words...)
		require.Equal(t, cli.ExitOK, code, stderr)
	}
	args := canaryArgs()
	args["config view"], args["consumer show"] = nil, []string{args["event show"][0], "--consumer", "mailer-of-the-other-department"}
	args["topic ensure"] = []string{"--dry-run"} // it would wait for the publisher
	args["event list"], args["registry list"] = nil, []string{"--catalogue", "../testdata/catalogue/doorito.yaml"}
	lists := [][]string{{"dlq", "list", "--group-by", "fingerprint"}, {"stats"}, {"doctor"}}
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		if o := c.Flags().Lookup("output"); o != nil && o.DefValue == cli.FormatTable && slices.Contains(o.Value.(*cli.Output).Choices(), cli.FormatWide) {
			lists = append(lists, append(strings.Fields(pathOf(c)), args[pathOf(c)]...))
		}
	})
	require.Greater(t, len(lists), 18)
	var wrong []string
	for _, words := range lists {
		for line := range strings.Lines(run(words...)) {
			line = strings.TrimSuffix(line, "\n")
			if ansi.StringWidth(line) > 80 || strings.TrimRight(line, " ") != line {
				wrong = append(wrong, fmt.Sprintf("%v: %q", words, line))
			}
		}
	}
	require.Empty(t, wrong)
}
