package cmd_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The session in the README is the story that testdata/script/walk.txtar runs: a command shown to newcomers is a command
// that a test has run.
func TestReadmeSessionIsTheWalk(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	walk, err := os.ReadFile("../testdata/script/walk.txtar")
	require.NoError(t, err)
	// The story quotes for testscript, where two quotes stand for one.
	story := strings.ReplaceAll(string(walk), "''", "'")

	shown := 0
	for line := range strings.Lines(string(readme)) {
		command, found := strings.CutPrefix(line, "$ ")
		if !found || !strings.Contains(command, "outboxctl ") {
			continue
		}
		command, _, _ = strings.Cut(command, " # ")
		command = strings.TrimSpace(command)
		command = strings.TrimSuffix(strings.TrimPrefix(command, "ID=$("), ")")
		require.Contains(t, story, command)
		shown++
	}
	require.Greater(t, shown, 8)
}
