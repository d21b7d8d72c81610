package devstate_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstate"
)

func TestDiscoverFindsOnlyALivingStack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	_, err := devstate.Discover(dir)
	require.ErrorIs(t, err, devstate.ErrNotRunning)

	lock, err := devstate.AcquireLock(dir)
	require.NoError(t, err)
	_, err = devstate.Discover(dir)
	require.ErrorIs(t, err, devstate.ErrNotRunning, "starting is not running")

	info := devstate.Info{
		PID:            os.Getpid(),
		StartedAt:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		DatabaseURL:    "postgres://postgres@127.0.0.1:1/db",
		RedisURL:       "redis://127.0.0.1:2/0",
		PubSubEmulator: "127.0.0.1:3",
		PubSubProject:  "p",
	}
	require.NoError(t, devstate.WriteInfo(dir, info))
	found, err := devstate.Discover(dir)
	require.NoError(t, err)
	require.Equal(t, &info, found)
	stat, err := os.Stat(filepath.Join(dir, "stack.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())

	// What a killed stack leaves: its file, but not its lock.
	require.NoError(t, lock.Release())
	_, err = devstate.Discover(dir)
	require.ErrorIs(t, err, devstate.ErrNotRunning)

	require.NoError(t, devstate.RemoveInfo(dir))
	require.NoError(t, devstate.RemoveInfo(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the lock file stays")
}

// The temporary folder is everybody's: what another user put there says nothing about our servers.
func TestAnotherUsersStackIsNotOurs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "outboxctl-dev-1000")
	lock, err := devstate.AcquireLock(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Release()) }()
	require.NoError(t, devstate.WriteInfo(dir, devstate.Info{DatabaseURL: "postgres://ours@evil.example/outbox"}))
	_, err = devstate.Discover(dir)
	require.NoError(t, err)

	foreign := new(devstate.ForeignError)
	require.NoError(t, os.Chmod(filepath.Join(dir, devstate.InfoFile), 0o666))
	_, err = devstate.Discover(dir)
	require.ErrorAs(t, err, &foreign, "all may write it")
	require.NoError(t, os.Chmod(filepath.Join(dir, devstate.InfoFile), 0o600))
	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = devstate.Discover(dir)
	require.ErrorAs(t, err, &foreign, "all may replace it")
	_, err = devstate.AcquireLock(dir)
	require.ErrorAs(t, err, &foreign, "a stack is not started there either")
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chown(dir, 65534, 65534))
	_, err = devstate.Discover(dir)
	require.ErrorAs(t, err, &foreign)
	require.ErrorContains(t, err, "belongs to another user (uid 65534)")
}

func TestAcquireLockNamesTheHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := devstate.AcquireLock(dir)
	require.NoError(t, err)

	_, err = devstate.AcquireLock(dir)
	var locked *devstate.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, &devstate.LockedError{Dir: dir, PID: os.Getpid()}, locked)

	require.NoError(t, lock.Release())
	lock, err = devstate.AcquireLock(dir)
	require.NoError(t, err)
	require.NoError(t, lock.Release())
}

func TestDefaultDir(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOME": "/home/u"}
	getenv := func(name string) string { return env[name] }
	if os.Geteuid() == 0 {
		require.Equal(t, "/var/lib/outboxctl/dev", devstate.DefaultDir(getenv))
	} else {
		require.Equal(t, "/home/u/.local/state/outboxctl/dev", devstate.DefaultDir(getenv))
	}
	env["XDG_STATE_HOME"] = "/xdg"
	require.Equal(t, "/xdg/outboxctl/dev", devstate.DefaultDir(getenv))
	env["OUTBOXCTL_STATE_DIR"] = "/own"
	require.Equal(t, "/own", devstate.DefaultDir(getenv))
}
