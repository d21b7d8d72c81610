package devstate

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that is being started has copies of all descriptors until it runs its own program.
func TestReleaseDoesNotWaitForACopyOfTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := AcquireLock(dir)
	require.NoError(t, err)
	held, err := syscall.Dup(int(lock.file.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(held) })

	require.NoError(t, lock.Release())
	next, err := AcquireLock(dir)
	require.NoError(t, err)
	require.NoError(t, next.Release())
}
