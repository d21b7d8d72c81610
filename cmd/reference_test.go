package cmd

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
)

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(content)
		return err
	}))
	return files
}

// Stale files are found by comparison, so two runs must write the same bytes.
func TestWriteReferenceIsRepeatable(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	require.NoError(t, WriteReference(first))
	require.NoError(t, WriteReference(second))

	files := readTree(t, first)
	require.Equal(t, files, readTree(t, second))
	for _, name := range []string{"completions/outboxctl.bash", "completions/_outboxctl", "completions/outboxctl.fish"} {
		require.Contains(t, files[name], "__complete", name)
	}
	require.Len(t, files, 4)
}

func TestEveryCommandHasAManPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, WriteManPages(dir))
	files := readTree(t, dir)

	pages := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.HasParent() && !c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			return
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		require.Contains(t, files[name], c.Short, name)
		require.NotContains(t, files[name], "1970", "the same commit makes the same release")
		pages++
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)))
	require.Greater(t, pages, 3)
}

// The configuration reference has every key, and its example is accepted as a file.
func TestConfigReferenceExampleIsAccepted(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	require.NoError(t, cli.WriteConfigReference(&page))
	for _, k := range cli.Settings() {
		require.Contains(t, page.String(), "`"+k.Name+"`")
	}
	_, example, found := strings.Cut(page.String(), "```yaml\n")
	require.True(t, found)
	example, _, found = strings.Cut(example, "```")
	require.True(t, found)
	path := filepath.Join(t.TempDir(), "outboxctl.yaml")
	require.NoError(t, os.WriteFile(path, []byte(example), 0o600))
	cfg, problems := cli.LoadConfig(cli.ConfigSource{Flag: func(name string) (string, bool) { return path, name == cli.FlagConfig }})
	require.Empty(t, problems)
	require.Equal(t, "staging", cfg.Context.Name)
	require.Len(t, cfg.Contexts, 2)
}
