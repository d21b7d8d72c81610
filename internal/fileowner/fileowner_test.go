package fileowner_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fileowner"
)

const stranger = 65534

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, folder fs.FileMode
		change       func(t *testing.T, file, folder string)
		want         string
	}{
		"mine":                 {0o644, 0o755, nil, ""},
		"all may write it":     {0o666, 0o755, nil, "may be written to by other users (mode 0666)"},
		"all may replace it":   {0o644, 0o777, nil, "may be written to by other users (mode 0777)"},
		"in a folder like tmp": {0o600, 0o777 | fs.ModeSticky, nil, ""},
		"of a stranger": {0o644, 0o777 | fs.ModeSticky, func(t *testing.T, file, _ string) {
			t.Helper()
			require.NoError(t, os.Chown(file, stranger, stranger))
		}, "belongs to another user (uid 65534)"},
		"in a stranger's folder": {0o644, 0o755, func(t *testing.T, _, folder string) {
			t.Helper()
			require.NoError(t, os.Chown(folder, stranger, stranger))
		}, "belongs to another user (uid 65534)"},
		"a group of several may write": {0o664, 0o755, func(t *testing.T, file, _ string) {
			t.Helper()
			require.NoError(t, os.Chown(file, -1, stranger))
		}, "may be written to by other users (mode 0664)"},
		"a stranger's link to mine": {0o644, 0o777 | fs.ModeSticky, func(t *testing.T, file, _ string) {
			t.Helper()
			mine := filepath.Join(t.TempDir(), "mine")
			require.NoError(t, os.Rename(file, mine))
			require.NoError(t, os.Symlink(mine, file))
			require.NoError(t, os.Lchown(file, stranger, stranger))
		}, "belongs to another user (uid 65534)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change != nil && os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}
			folder := filepath.Join(t.TempDir(), "folder")
			file := filepath.Join(folder, "file")
			require.NoError(t, os.Mkdir(folder, 0o700))
			require.ErrorIs(t, fileowner.Check(file), fs.ErrNotExist)
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			require.NoError(t, os.Chmod(file, tc.file))
			require.NoError(t, os.Chmod(folder, tc.folder))
			if tc.change != nil {
				tc.change(t, file, folder)
			}
			if err := fileowner.Check(file); tc.want != "" {
				require.ErrorContains(t, err, tc.want)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
