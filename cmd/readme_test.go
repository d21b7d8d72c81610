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
	_, session, _ := strings.Cut(string(readme), "in another terminal:")
	session, _, _ = strings.Cut(session, "**Use it.**")
	// The story quotes for testscript, where two quotes stand for one.
	story := strings.ReplaceAll(string(walk), "''", "'")

	shown := 0
	for line := range strings.Lines(session) {
		command := strings.TrimSpace(line)
		command = strings.TrimSuffix(strings.TrimPrefix(command, "ID=$("), ")")
		if !strings.HasPrefix(command, "outboxctl ") {
			continue
		}
		require.Contains(t, story, command)
		shown++
	}
	require.Equal(t, 7, shown)
}
