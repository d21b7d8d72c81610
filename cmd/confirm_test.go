package cmd

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// asked runs a command in a production context on a terminal, with an answer.
func (w *writerWorld) asked(answer string, args ...string) (code int, said string) {
	w.t.Helper()
	var out, talk lockedBuffer
	streams := cli.Streams{In: strings.NewReader(answer), Out: &out, Err: &talk, InTTY: true, ErrTTY: true, Width: 200}
	code = Run(w.t.Context(), args, streams, append(slices.Clone(w.env), "NO_COLOR=1"))
	return code, out.String() + talk.String()
}

// Every question names database and context, and so does what is said afterwards. What destroys more than rows is confirmed by the
// context's name, as many rows are: a y is not enough.
func TestEveryQuestionNamesWhereItIsAbout(t *testing.T) {
	t.Parallel()
	typed := []string{"consumer forget", "registry apply", "erase"}
	asks := 0
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		path := pathOf(c)
		// cleanup's consent is the age that is given; dev asks about a folder of this machine.
		if c.Flag("yes") == nil || path == "cleanup" || path == "dev" {
			return
		}
		asks++
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := newWriterWorld(t)
			file := strings.TrimPrefix(w.env[2], "OUTBOXCTL_CONFIG=")
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "  open:\n", "  open:\n    production: true\n", 1)), 0o600))
			writer := writers()[path]
			if writer.prepare != nil {
				writer.prepare(w)
			}
			args := slices.DeleteFunc(append(strings.Fields(path), writer.args(w)...), func(s string) bool { return s == "--yes" })
			if path == "consumer forget" {
				_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO inbox_events (consumer, event_id) VALUES ('compliance', $1)`, w.published)
				require.NoError(t, err)
				args = append(args, "--inbox")
			}
			where := " in " + w.db.Name + " on 127.0.0.1:"
			before := w.state()
			code, said := w.asked("n\n", args...)
			require.Equal(t, cli.ExitRefused, code, said)
			require.Contains(t, said, where)
			require.Contains(t, said, ", context open")
			answer := "y\n"
			if slices.Contains(typed, path) {
				code, said = w.asked(answer, args...)
				require.Equal(t, cli.ExitRefused, code, "a y is enough: %s", said)
				require.Contains(t, said, "type open to continue: ")
				answer = "open\n"
			}
			w.unchanged(before, "a refused "+path)
			code, said = w.asked(answer, args...)
			require.Equal(t, cli.ExitOK, code, said)
			question := strings.Index(said, ", context open")
			require.Contains(t, said[question+1:], where, "the summary does not say where: %s", said)
			require.Contains(t, said[question+1:], ", context open")
		})
	})
	require.Greater(t, asks, 9)
}
