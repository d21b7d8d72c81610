package cmd

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// canary is the secret that must never come out again.
const canary = "canary7Zq"

// canaryArgs makes every command do its work: what it needs besides its name. A command that is missing here fails the
// test, so that no new one is forgotten. Those that serve until they are stopped are stopped by their context.
func canaryArgs() map[string][]string {
	id := uuid.Must(uuid.NewV7()).String()
	change := []string{id, "--yes", "--note", "canary"}
	return map[string][]string{
		"":                   {"--version"},
		"audit":              nil,
		"audit show":         {id},
		"audit undo":         {id, "--yes"},
		"check":              {"--max-backlog", "1"},
		"cleanup":            {"--older-than", "1d", "--dlq-older-than", "1d", "--inbox-older-than", "30d"},
		"completion bash":    nil,
		"completion fish":    nil,
		"completion zsh":     nil,
		"config contexts":    nil,
		"config use-context": {"-"},
		"config view":        {"-o", "json"},
		"consume":            {"--example", "--http-addr", "127.0.0.1:0"},
		"dev":                {"--state-dir", os.DevNull},
		"init":               {"--name", "no name"}, // so it writes no file
		"dlq discard":        change,
		"dlq edit":           {id, "--data", "{}", "--yes", "--note", "canary"},
		"dlq export":         nil,
		"dlq list":           {"--limit", "1"},
		"dlq replay":         change,
		"dlq restore":        change,
		"dlq show":           {id},
		"doctor":             nil,
		"emit":               {"--type", "media_uploaded", "--aggregate-id", id, "--data", "{}"},
		"environment":        nil,
		"erase":              change,
		"event list":         {"--limit", "1"},
		"event republish":    change,
		"event retry":        change,
		"event show":         {id},
		"event tail":         {"--for", "100ms"},
		"exit-codes":         nil,
		"help":               nil,
		"consumer failures":  nil,
		"consumer list":      nil,
		"consumer retry":     {"c", id, "--yes", "--note", "canary"},
		"consumer forget":    {id, "--consumer", "c", "--yes", "--note", "canary"},
		"consumer show":      {id, "--consumer", "c"},
		"migrate":            nil,
		"migrate grants":     nil,
		"migrate status":     nil,
		"migrate version":    nil,
		"pause":              {"--type", "media_uploaded", "--for", "1s", "--yes", "--note", "canary"},
		"pause list":         nil,
		"plan abandon":       {id},
		"plan list":          nil,
		"plan run":           {id, "--yes"},
		"plan show":          {id},
		"plan stop":          {id},
		"publish":            {"--once", "--http-addr", "127.0.0.1:0"},
		"registry apply":     {"../testdata/catalogue/doorito.yaml", "--dry-run"},
		"registry check":     {"../testdata/catalogue/doorito.yaml", "--pending"},
		"registry diff":      {"../testdata/catalogue/doorito.yaml"},
		"registry export":    {"database"},
		"registry list":      nil,
		"registry show":      {"media_uploaded"},
		"resume":             {"--type", "media_uploaded", "--yes", "--note", "canary"},
		"stats":              {"--by", "type"},
		"topic ensure":       nil,
		"publishers":         nil,
		"topic list":         nil,
		"ui":                 {"--addr", "0.0.0.0:0"}, // refused; a page that is served is the canary of ui
		"version":            nil,
		"why":                {id},
	}
}

// canaryServers is one way of configuring servers, with the secret in it.
type canaryServers struct {
	database, redis string
	asFlags         bool
	answer          bool
}

func (s canaryServers) commandLine(words []string) (args, environ []string) {
	common := []string{"PUBSUB_EMULATOR_HOST=127.0.0.1:1", "GOOGLE_CLOUD_PROJECT=p", "OUTBOXCTL_ACTOR=canary test"}
	if s.asFlags {
		return append(words, "--database-url", s.database, "--redis-url", s.redis), common
	}
	return words, append(common, "DATABASE_URL="+s.database, "REDIS_URL="+s.redis)
}

// secrets are the canary and the passwords of the servers that answer, which are random.
func (s canaryServers) secrets() []string {
	found := []string{canary}
	for _, raw := range []string{s.database, s.redis} {
		if u, err := url.Parse(raw); err == nil {
			if password, given := u.User.Password(); given {
				found = append(found, password)
			}
		}
	}
	return found
}

func withPassword(t *testing.T, raw, user string) string {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	u.User = url.UserPassword(user, canary)
	return u.String()
}

// Nothing that any command prints or logs, whatever goes wrong, holds the password of a server.
func TestNoCommandShowsASecret(t *testing.T) {
	t.Parallel()
	refused := "redis://:" + canary + "@127.0.0.1:1/0"
	broken := func(format string) string { return fmt.Sprintf(format, canary) }
	for name, servers := range map[string]canaryServers{
		"unreachable":               {broken("postgres://app:%s@127.0.0.1:1/x"), refused, false, false},
		"unreachable, as flags":     {broken("postgres://app:%s@127.0.0.1:1/x"), refused, true, false},
		"unreachable, keywords":     {broken("host=127.0.0.1 port=1 user=app password=%s"), refused, true, false},
		"unreachable, quoted":       {broken(`host=127.0.0.1 port=1 password = 'a \' %s'`), refused, false, false},
		"unreachable, parameter":    {broken("postgres://127.0.0.1:1/x?user=app&password=%s"), refused, true, false},
		"unreachable, key file":     {broken("postgres://127.0.0.1:1/x?sslmode=require&sslpassword=%s"), refused, false, false},
		"unreachable, odd password": {broken("postgres://app:a%%40%s%%2Fb@127.0.0.1:1/x"), broken("redis://u:a%%40%s%%2Fb@127.0.0.1:1"), true, false},
		"malformed port":            {broken("postgres://app:%s@127.0.0.1:port/x"), broken("redis://:%s@127.0.0.1:port/0"), false, false},
		"malformed, as flags":       {broken("postgres://app:%s@127.0.0.1:port/x"), broken("redis://:%s@127.0.0.1:port/0"), true, false},
		"malformed keywords":        {broken("host=127.0.0.1 port=x password=%s"), broken("host=x password=%s"), true, false},
		"malformed quotes":          {broken("host=127.0.0.1 password='%s"), broken("redis://:%s@127.0.0.1/zero"), false, false},
		"slash in the password":     {broken("postgres://app:a/%s@127.0.0.1:1/x"), broken("redis://:a/%s@127.0.0.1:1/0"), true, false},
		"slash after digits":        {broken("postgres://app:1/%s@127.0.0.1:1/x"), broken("redis://:1/%s@127.0.0.1:1/0"), true, false},
		"comma in the password":     {broken("host=127.0.0.1 port=1 password=a;b,%s"), refused, false, false},
		"hash in the password":      {broken("postgres://app:a#%s@127.0.0.1:1/x"), broken("redis://:a#%s@127.0.0.1:1/0"), false, false},
		"mark in the password":      {broken("postgres://app:a?%s@127.0.0.1:1/x"), broken("redis://:a?%s@127.0.0.1:1/0"), true, false},
		"escape in the password":    {broken("postgres://app:%%zz%s@127.0.0.1:1/x"), broken("redis://:%%zz%s@127.0.0.1:1/0"), false, false},
		"password without a scheme": {broken("app:%s@127.0.0.1:1/x"), broken(":%s@127.0.0.1:1"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runWithCanary(t, servers)
		})
	}
	t.Run("servers that answer", func(t *testing.T) {
		t.Parallel()
		runWithCanary(t, canaryServers{outboxtest.DB(t).URL, outboxtest.Redis(t).URL, true, true})
	})
	t.Run("a database without an outbox", func(t *testing.T) {
		t.Parallel()
		runWithCanary(t, canaryServers{outboxtest.EmptyDB(t).URL, refused, false, true})
	})
	t.Run("a role that does not exist", func(t *testing.T) {
		t.Parallel()
		runWithCanary(t, canaryServers{withPassword(t, outboxtest.EmptyDB(t).URL, "nobody_like_that"), refused, true, false})
	})
}

// runWithCanary runs every command of the tree, and what a shell asks when Tab is pressed.
func runWithCanary(t *testing.T, servers canaryServers) {
	t.Helper()
	more := canaryArgs()
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "outboxctl"), " ")
		if c.HasSubCommands() && c.Name() != "migrate" && c.HasParent() {
			return // only prints its help
		}
		args, known := more[path]
		require.True(t, known, "give %q its arguments, so that it is tried", path)
		requireNoCanary(t, servers, append(strings.Fields(path), args...))
	})
	requireNoCanary(t, servers, []string{"__complete", "dlq", "show", ""})
	requireNoCanary(t, servers, []string{"no-such-command"})
}

func requireNoCanary(t *testing.T, servers canaryServers, words []string) {
	t.Helper()
	if words[0] != "__complete" && words[0] != "no-such-command" {
		words = append(words, "--log-level", "trace")
	}
	args, environ := servers.commandLine(words)
	// Services that could start are stopped; how long they ran does not matter here.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	code, out, talk := RunText(ctx, append(environ, "HOME="+t.TempDir()), "", args...)
	// Otherwise nothing would have been tried.
	if servers.answer && words[0] != "no-such-command" {
		require.NotContains(t, talk, "--help lists", "%v", words)
		require.NotContains(t, talk, "usage: outboxctl", "%v", words)
	}
	for _, text := range []string{out, talk} {
		for _, secret := range servers.secrets() {
			require.NotContains(t, text, secret, "%v (exit code %d)", words, code)
		}
	}
}
