package cmd

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// A command that is printed to be pasted must act on the same servers, and must not show a password.
func TestCommandLineKeepsTheServers(t *testing.T) {
	t.Parallel()
	app := cli.NewApp(cli.Streams{Out: io.Discard, Err: io.Discard}, nil)
	root := newRootCmd(app)
	cmd, args, err := root.Find([]string{"dlq", "list"})
	require.NoError(t, err)
	require.NoError(t, cmd.ParseFlags(append(args,
		"--config", "prod env.yaml", "--project", "shop", "--emulator", "h:1", "--exec-mode", "exec", "--limit", "3", "--log-level", "warn",
		"--database-url", "postgres://me:secret@db/outbox", "--redis-url", "redis://:secret@cache:6379/0")))
	require.Equal(t,
		`outboxctl dlq list --config 'prod env.yaml' --cursor x --emulator h:1 --exec-mode exec --limit 3 --log-level warn --project shop`,
		cli.CommandLine(cmd, nil, map[string]string{"cursor": "x"}))
}

// A group in the plural is understood; and only the probe answers like a probe.
func TestWhatWasMeantIsNamed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, want string }{
		{"events list", "hint: did you mean event?\n"},
		{"pauses list", "hint: did you mean pause?\n"},
		{"events nonsense", "hint: did you mean event?\n"},
		{"registry check", "hint: usage: outboxctl registry check FILE"},
		{"registry check x.yaml --nonsense", "error: unknown flag: --nonsense\n"},
	} {
		code, stdout, stderr := runCLI(t, nil, strings.Fields(tc.args)...)
		require.Equal(t, cli.ExitUsage, code, tc.args)
		require.Contains(t, stderr, tc.want, tc.args)
		require.Empty(t, stdout, tc.args)
	}
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		if c.HasSubCommands() && c.HasParent() && !c.Parent().HasParent() && !strings.HasSuffix(c.Name(), "s") {
			_, _, stderr := runCLI(t, nil, c.Name()+"s")
			require.Regexp(t, "did you mean .*"+c.Name(), stderr)
		}
	})
}
