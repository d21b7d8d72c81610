package cmd

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/migrate"
)

// asked runs a command on a terminal, with an answer, by a configuration file.
func (w *writerWorld) asked(config, answer string, args ...string) (code int, said string) {
	w.t.Helper()
	var out, talk lockedBuffer
	streams := cli.Streams{In: strings.NewReader(answer), Out: &out, Err: &talk, InTTY: true, ErrTTY: true, Width: 200}
	code = Run(w.t.Context(), args, streams, append(slices.Clone(w.env), "NO_COLOR=1", "OUTBOXCTL_CONFIG="+config))
	return code, out.String() + talk.String()
}

// production makes the open context of a configuration file one of production.
func (w *writerWorld) production(config string) {
	w.t.Helper()
	text, err := os.ReadFile(config)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(config, []byte(strings.Replace(string(text), "  open:\n", "  open:\n    production: true\n", 1)), 0o600))
}

// Every command that writes, in one world each. A read-only context refuses it, in words that say why and what to do. The
// server refuses it to every role that it is not for, with the reason and what helps. Where it asks, the question and what
// is said afterwards name database and context, and what destroys more than rows is confirmed by the context's name: a y is
// not enough. None of that changes database, broker or Redis. Confirmed, by the role that it is for, it does change something.
func TestEveryWriter(t *testing.T) {
	t.Parallel()
	asks := map[string]bool{}
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		// cleanup's consent is the age that is given; dev asks about a folder of this machine.
		if path := pathOf(c); c.Flag("yes") != nil && path != "cleanup" && path != "dev" {
			asks[path] = true
		}
	})
	require.Greater(t, len(asks), 9)
	for path, writer := range writers() {
		roles, known := allowed()[path]
		require.True(t, known || path == "topic ensure", "say which roles may %q", path)
		ask := asks[path]
		delete(asks, path)
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := newWriterWorld(t)
			if writer.prepare != nil {
				writer.prepare(w)
			}
			args := append(strings.Fields(path), writer.args(w)...)
			if path == "consumer forget" {
				_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO inbox_events (consumer, event_id) VALUES ('compliance', $1)`, w.published)
				require.NoError(t, err)
			}
			before := w.state()
			w.refused(args...)
			w.unchanged(before, path)
			config := strings.TrimPrefix(w.env[2], "OUTBOXCTL_CONFIG=")
			for _, role := range append(migrate.Roles(), plain) {
				if slices.Contains(roles, role) {
					config = w.login(role)
				} else if known {
					w.denied(role, args...)
					w.unchanged(before, path+" as "+role)
				}
			}
			if !ask {
				code, out, stderr := w.as(config, args...)
				require.Equal(t, cli.ExitOK, code, "%s%s", out, stderr)
			} else {
				w.confirmed(config, before, slices.DeleteFunc(args, func(s string) bool { return s == "--yes" }))
			}
			require.False(t, maps.Equal(before, w.state()), "%v changes nothing, so that its refusal shows nothing", args)
		})
	}
	require.Empty(t, asks, "commands that ask are writers")
}

// denied runs a command as a role that it is not for.
func (w *writerWorld) denied(role string, args ...string) {
	w.t.Helper()
	code, out, stderr := w.as(w.login(role), args...)
	require.Equal(w.t, cli.ExitPrecondition, code, "%s: %s%s", role, out, stderr)
	require.Regexp(w.t, `error: .*(permission denied for|must be owner of|may not)`, stderr, role)
	require.Regexp(w.t, `hint: .*(migrate grants|owner of the tables)`, stderr, role)
}

// confirmed runs a command that asks, first without and then with the answer that it wants.
func (w *writerWorld) confirmed(config string, before map[string]string, args []string) {
	w.t.Helper()
	w.production(config)
	if args[0] == "consumer" && args[1] == "forget" {
		args = append(args, "--inbox")
	}
	where := " in " + w.db.Name + " on 127.0.0.1:"
	code, said := w.asked(config, "n\n", args...)
	require.Equal(w.t, cli.ExitRefused, code, said)
	require.Contains(w.t, said, where)
	require.Contains(w.t, said, ", context open")
	answer := "y\n"
	if typed := []string{"consumer forget", "registry apply", "erase"}; slices.ContainsFunc(typed, func(path string) bool {
		return strings.HasPrefix(strings.Join(args, " "), path)
	}) {
		code, said = w.asked(config, answer, args...)
		require.Equal(w.t, cli.ExitRefused, code, "a y is enough: %s", said)
		require.Contains(w.t, said, "type open to continue: ")
		answer = "open\n"
	}
	w.unchanged(before, "a refused command")
	code, said = w.asked(config, answer, args...)
	require.Equal(w.t, cli.ExitOK, code, said)
	question := strings.Index(said, ", context open")
	require.Contains(w.t, said[question+1:], where, "the summary does not say where: %s", said)
	require.Contains(w.t, said[question+1:], ", context open")
}
