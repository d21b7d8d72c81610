package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine without vi has another editor.
func TestTheEditorThatTheMachineHas(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	shell := "#!/bin/sh\necho edited > \"$1\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "nano"), []byte(shell), 0o700))
	require.NoError(t, os.Symlink("/bin/sh", filepath.Join(folder, "sh")))
	t.Setenv("PATH", folder)
	require.NoError(t, NewApp(Streams{}, nil).EditFile(t.Context(), file))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "edited\n", string(got))

	require.NoError(t, os.Remove(filepath.Join(folder, "nano")))
	require.ErrorContains(t, NewApp(Streams{}, nil).EditFile(t.Context(), file), "no editor was found")
}
