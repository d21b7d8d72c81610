package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstate"
)

// A file that nobody named says which database is changed, so it must be ours: in a folder such as /tmp anyone can put one.
func TestAnotherUsersConfigurationIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	const evil = "database: {url: postgres://ours@evil.example/outbox}\n"
	url := func(c *Config) string { return c.Database.URL }
	for _, path := range []string{filepath.Join(dir, "config", "outboxctl", "config.yaml"), "outboxctl.yaml"} { // the latter comes first
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(evil), 0o600))
		env := map[string]string{"XDG_CONFIG_HOME": filepath.Join(dir, "config")}
		cfg, problems := LoadConfig(source(nil, env))
		require.Empty(t, problems)
		require.NotEmpty(t, url(cfg), "ours is")

		require.NoError(t, os.Chmod(path, 0o666))
		cfg, problems = LoadConfig(source(nil, env))
		require.Contains(t, strings.Join(problems, "; "), "configuration file "+path+" is not used: ")
		require.Contains(t, strings.Join(problems, "; "), "may be written to by other users (mode 0666); --config "+path+" says that it is meant")
		require.Empty(t, url(cfg))
		cfg, problems = LoadConfig(source(map[string]string{FlagConfig: path}, env))
		require.Empty(t, problems)
		require.NotEmpty(t, url(cfg), "it was named")
		if os.Geteuid() == 0 {
			require.NoError(t, os.Chmod(path, 0o644))
			require.NoError(t, os.Chown(path, 65534, 65534))
			_, problems = LoadConfig(source(nil, env))
			require.Contains(t, strings.Join(problems, "; "), "belongs to another user (uid 65534)")
		}
	}
}

// Nor is a dev stack that another user announced, and that is said.
func TestAnotherUsersStackIsNotUsed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	lock, err := devstate.AcquireLock(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Release()) }()
	require.NoError(t, devstate.WriteInfo(dir, devstate.Info{
		DatabaseURL: "postgres://ours@evil.example/outbox", RedisURL: "redis://evil.example:1/0", PubSubEmulator: "evil.example:2", PubSubProject: "project",
	}))
	load := func() (string, string) {
		var said bytes.Buffer
		app := NewApp(Streams{Out: &said, Err: &said}, []string{"OUTBOXCTL_STATE_DIR=" + dir})
		cfg, err := app.Config()
		require.NoError(t, err)
		return cfg.Database.URL, said.String()
	}
	found, said := load()
	require.NotEmpty(t, found)
	require.Equal(t, "using the running dev stack in "+dir+"\n", said)
	require.NoError(t, os.Chmod(dir, 0o777))
	found, said = load()
	require.Empty(t, found)
	require.Contains(t, said, "note: the dev stack in "+dir+" is not used: "+dir+" may be written to by other users (mode 0777)")
}
