package stack_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/stack"
)

func TestDiscoverFindsOnlyALivingStack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	_, err := stack.Discover(dir)
	require.ErrorIs(t, err, stack.ErrNotRunning)

	lock, err := stack.AcquireLock(dir)
	require.NoError(t, err)
	_, err = stack.Discover(dir)
	require.ErrorIs(t, err, stack.ErrNotRunning, "starting is not running")

	info := stack.Info{
		PID:            os.Getpid(),
		StartedAt:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		DatabaseURL:    "postgres://postgres@127.0.0.1:1/db",
		RedisURL:       "redis://127.0.0.1:2/0",
		PubSubEmulator: "127.0.0.1:3",
		PubSubProject:  "p",
	}
	require.NoError(t, stack.WriteInfo(dir, info))
	found, err := stack.Discover(dir)
	require.NoError(t, err)
	require.Equal(t, &info, found)
	stat, err := os.Stat(filepath.Join(dir, "stack.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())

	// What a killed stack leaves: its file, but not its lock.
	require.NoError(t, lock.Release())
	_, err = stack.Discover(dir)
	require.ErrorIs(t, err, stack.ErrNotRunning)

	require.NoError(t, stack.RemoveInfo(dir))
	require.NoError(t, stack.RemoveInfo(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the lock file stays")
}

func TestAcquireLockNamesTheHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := stack.AcquireLock(dir)
	require.NoError(t, err)

	_, err = stack.AcquireLock(dir)
	var locked *stack.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, &stack.LockedError{Dir: dir, PID: os.Getpid()}, locked)

	require.NoError(t, lock.Release())
	lock, err = stack.AcquireLock(dir)
	require.NoError(t, err)
	require.NoError(t, lock.Release())
}

func TestDefaultDir(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOME": "/home/u"}
	getenv := func(name string) string { return env[name] }
	if os.Geteuid() == 0 {
		require.Equal(t, "/var/lib/outboxctl/dev", stack.DefaultDir(getenv))
	} else {
		require.Equal(t, "/home/u/.local/state/outboxctl/dev", stack.DefaultDir(getenv))
	}
	env["XDG_STATE_HOME"] = "/xdg"
	require.Equal(t, "/xdg/outboxctl/dev", stack.DefaultDir(getenv))
	env["OUTBOXCTL_STATE_DIR"] = "/own"
	require.Equal(t, "/own", stack.DefaultDir(getenv))
}
