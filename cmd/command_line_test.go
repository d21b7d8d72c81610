package cmd

import (
	"io"
	"testing"

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
