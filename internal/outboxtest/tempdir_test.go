package outboxtest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestTempDirIsThereAndCanBeChosen(t *testing.T) {
	t.Setenv("TMPDIR", "")
	require.DirExists(t, outboxtest.TempDir())
	dir, err := os.MkdirTemp(outboxtest.TempDir(), "outboxctl-test-tempdir-")
	require.NoError(t, err)
	require.NoError(t, os.Remove(dir))

	t.Setenv("TMPDIR", "/chosen")
	require.Equal(t, "/chosen", outboxtest.TempDir())
}
