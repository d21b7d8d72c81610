package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/check"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// lockOutbox has another session hold every table of the outbox, and returns its process id.
func lockOutbox(t *testing.T, url string) (pid uint32) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	config.RuntimeParams["application_name"] = "nightly report"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) }) // the server ends it otherwise
	rows, err := conn.Query(t.Context(), `SELECT format('%I', relname) FROM pg_class WHERE relname LIKE 'outbox\_%' AND relkind = 'r'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "BEGIN; LOCK TABLE "+strings.Join(tables, ", ")+" IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	return conn.PgConn().PID()
}

// A table that another session has locked ends every command that reads, and it says who that is. Commands that need no
// table, or that do not begin by reading, are named here, so that no new one is forgotten.
func TestALockedTableNamesWhoHoldsIt(t *testing.T) {
	t.Parallel()
	others := []string{
		"", "completion bash", "completion fish", "completion zsh", "config contexts", "config use-context", "config view",
		"consume", "dev", "environment", "exit-codes", "help", "init", "migrate", "migrate grants", "publish", "topic ensure", "topic list", "ui", "version",
	}
	// With the built-in catalogue these read no table before they write one, or none at all.
	packfinderz := append(slices.Clone(others), "audit undo", "cleanup", "emit", "consumer forget", "registry list", "registry show")
	db := outboxtest.DB(t)
	holder := fmt.Sprintf("locked by pid %d (nightly report)", lockOutbox(t, db.URL))
	env := []string{"DATABASE_URL=" + db.URL, "OUTBOXCTL_DATABASE_READ_TIMEOUT=200ms", "REDIS_URL=" + outboxtest.Redis(t).URL}
	more := canaryArgs()
	more["event tail"] = []string{"--for", "1m"}
	for catalogue, without := range map[string][]string{"database": others, "packfinderz": packfinderz} {
		walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
			path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "outboxctl"), " ")
			if c.HasSubCommands() && !slices.Contains([]string{"audit", "pause"}, path) || slices.Contains(without, path) {
				return
			}
			t.Run(catalogue+" "+path, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // instead of hanging
				defer cancel()
				var out, talk lockedBuffer
				env := append(slices.Clone(env), "HOME="+t.TempDir(), "OUTBOXCTL_CATALOGUE="+catalogue)
				if path == "doctor" { // what it reads beside the tables may take its time on a busy machine
					env = append(env, "OUTBOXCTL_DATABASE_READ_TIMEOUT=2s")
				}
				code := Run(ctx, append(strings.Fields(path), more[path]...), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &talk}, env)
				require.Contains(t, out.String()+talk.String(), holder)
				switch path {
				case "check":
					require.Equal(t, check.Unknown, code)
					require.Regexp(t, "^OUTBOX UNKNOWN - [^\n]*locked by pid", out.String())
				case "doctor":
					require.Equal(t, cli.ExitFailed, code)
					require.Equal(t, 1, strings.Count(out.String(), holder), "one finding\n%s", out.String())
					require.Contains(t, out.String(), "fail\tdatabase\tlocks, schema, indexes, leases, alive, event ids, limits\t")
				default:
					require.Equal(t, cli.ExitPrecondition, code)
					require.Contains(t, talk.String(), "hint: wait until it ends, or end it: SELECT pg_terminate_backend(")
				}
			})
		})
	}
}
