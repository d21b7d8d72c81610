package cmd_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/cli"
)

// A terminal shows how the events are doing, on a screen of its own; what the components say is in the file it names.
func TestDevShowsItselfOnATerminal(t *testing.T) {
	t.Parallel()
	dir := devStateDir(t)
	var out, talk bytes.Buffer
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &talk, OutTTY: true, ErrTTY: true, Width: 100, Height: 40}
	var lasted string
	for _, lasted = range []string{"6s", "30s", "1m30s"} { // a busy machine needs longer until something has died
		out.Reset()
		talk.Reset()
		args := []string{"dev", "--demo", "--demo-rate", "200", "--for", lasted, "--no-ui", "--state-dir", dir}
		require.Zero(t, cmd.Run(context.Background(), args, streams, []string{"NO_COLOR=1"}), talk.String())
		if strings.Contains(out.String(), "outboxctl why ") {
			break
		}
	}

	before, frames, entered := strings.Cut(out.String(), "\x1b[?1049h")
	require.True(t, entered, out.String())
	require.Contains(t, before, "export DATABASE_URL=")
	for _, want := range []string{"publisher, consumer, demo; up ", "dead letters  ", "outboxctl why ", "running for " + lasted, filepath.Join(dir, "dev.log")} {
		require.Contains(t, frames, want)
	}
	require.True(t, strings.HasSuffix(frames, "\x1b[?1049l"), "the terminal gets its own screen back")
	require.NotContains(t, talk.String(), "demo: ")
	require.Contains(t, talk.String(), "published since the start")
	log, err := os.ReadFile(filepath.Join(dir, "dev.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "demo: ")
}
