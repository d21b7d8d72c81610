package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A bench that was killed leaves its folder; the next one removes it, and only it.
func TestScratchDirSweepsUpAfterTheKilled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	killed, err := newScratchDir()
	require.NoError(t, err)
	require.NoError(t, killed.lock.Release())
	unlocked := filepath.Join(os.TempDir(), "outboxctl-bench-starting")
	require.NoError(t, os.Mkdir(unlocked, 0o755))

	running, err := newScratchDir()
	require.NoError(t, err)
	next, err := newScratchDir()
	require.NoError(t, err)
	require.NoDirExists(t, killed.path)
	require.DirExists(t, running.path)
	require.DirExists(t, unlocked)

	require.NoError(t, running.remove())
	require.NoError(t, next.remove())
	require.NoDirExists(t, running.path)
}
