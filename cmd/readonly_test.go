package cmd

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A command that is new has to say whether it writes: the refusal in a read-only context goes by that.
func TestEveryCommandSaysWhetherItWrites(t *testing.T) {
	t.Parallel()
	seen := []string{"__complete", "__completeNoDesc"} // cobra adds them when they are called
	tried := writers()
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		effect := effectOf(c)
		if !effect.Writes {
			seen = append(seen, pathOf(c))
		}
		for _, flag := range effect.Unless {
			require.NotNil(t, c.Flag(flag), "%s --%s", c.CommandPath(), flag)
		}
		// Who has these flags changes something without the first.
		for _, flag := range []string{"yes", "dry-run"} {
			require.False(t, c.Flag(flag) != nil && !effect.Writes && pathOf(c) != "dev", "%s has --%s and does not write?", c.CommandPath(), flag)
		}
		_, isTried := tried[pathOf(c)]
		require.Equal(t, effect.Writes, isTried, "either looking has %q, or writers what makes it write", c.CommandPath())
	})
	require.ElementsMatch(t, seen, looking(), "commands that look")
}

// Other ways to write are refused in a read-only context like those of TestEveryWriter.
func TestAReadOnlyContextRefusesEveryWayToWrite(t *testing.T) {
	t.Parallel()
	w := newWriterWorld(t)
	before := w.state()
	for _, args := range moreWriting(w) {
		w.refused(args...)
	}
	w.unchanged(before, "one of more")
}

// refused runs a command in the read-only context, which must refuse it.
func (w *writerWorld) refused(args ...string) {
	w.t.Helper()
	code, out, stderr := w.in(contextGuarded, args...)
	require.Equal(w.t, cli.ExitRefused, code, "%v: %s%s", args, out, stderr)
	require.Empty(w.t, out)
	require.Contains(w.t, stderr, "error: context guarded is read-only, and outboxctl "+args[0])
	require.Regexp(w.t, `hint: choose another with --context, or remove contexts\.guarded\.read_only in \S*outboxctl\.yaml`, stderr)
	require.Len(w.t, strings.Split(strings.TrimSpace(stderr), "\n"), 2, "it says nothing else, because it did nothing: %s", stderr)
}

// What only looks works in a read-only context as in any other, and so do the dry runs of what writes.
func TestAReadOnlyContextLetsEveryReaderLook(t *testing.T) {
	t.Parallel()
	w := newWriterWorld(t)
	readers := canaryArgs()
	for path, args := range readers {
		for i, arg := range args {
			if len(arg) == len(w.published) && strings.Count(arg, "-") == 4 {
				args[i] = map[string]string{"plan show": w.plan, "audit show": w.run, "dlq show": w.dead}[path]
				if args[i] == "" {
					args[i] = w.published
				}
			}
		}
	}
	before := w.state()
	effects := map[string]cli.Effect{"__complete": {}, "__completeNoDesc": {}}
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) { effects[pathOf(c)] = effectOf(c) })
	for path, effect := range effects {
		var lines [][]string
		switch {
		case path == "dev" || path == "init" || path == "ui" || path == "config use-context" || strings.HasPrefix(path, "completion"):
			continue // they have tests of their own, or servers
		case !effect.Writes:
			lines = [][]string{append(strings.Fields(path), readers[path]...)}
		}
		for _, flag := range effect.Unless {
			args := append(strings.Fields(path), writers()[path].args(w)...)
			lines = append(lines, append(args, "--"+flag))
		}
		for _, args := range lines {
			if strings.HasPrefix(path, "__") {
				args = []string{path, "dlq", "show", ""}
			}
			want, _, said := w.in(contextOpen, args...)
			code, out, stderr := w.in(contextGuarded, args...)
			require.Equal(t, want, code, "%v: %s%s\nelsewhere: %s", args, out, stderr, said)
			require.NotContains(t, stderr, "read-only", "%v", args)
			require.True(t, code != cli.ExitUsage || path == "check", "%v: %s", args, stderr)
		}
	}
	w.unchanged(before, "a reader")
}

// The page of a read-only context has none of the addresses that change something, whatever the flags say.
func TestThePageOfAReadOnlyContextOffersNoChanges(t *testing.T) {
	t.Parallel()
	w := newWriterWorld(t)
	address, stop := serveTestUI(t, append(slices.Clone(w.env), "OUTBOXCTL_CONTEXT="+contextGuarded,
		"OUTBOXCTL_UI_ADDR=127.0.0.1:0", "OUTBOXCTL_UI_ALLOW_CHANGES=true", "OUTBOXCTL_UI_PAYLOADS=reveal")...)
	defer stop()
	send := func(method, path string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(address.local, "/")+path, strings.NewReader("note=x"))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return fetchTest(t, http.DefaultClient, request)
	}
	before := w.state()
	for _, path := range []string{ // that none is forgotten is TestWhoMayChange's to see
		"/plans", "/plans/" + w.plan + "/run", "/topics/domain/pause", "/events/" + w.published + "/forget", "/events/" + w.published + "/reveal", "/dead-letters/" + w.dead + "/reveal", "/dead-letters/" + w.dead + "/edit",
	} {
		status, body := send(http.MethodPost, path)
		require.Equal(t, http.StatusNotFound, status, "%s: %s", path, body)
	}
	for _, page := range []string{"/", "/dead-letters", "/dead-letters/" + w.dead, "/events/" + w.published, "/plans/" + w.plan, "/topics"} {
		status, body := send(http.MethodGet, page)
		require.Equal(t, http.StatusOK, status, page)
		require.NotContains(t, body, `method="post"`, page)
	}
	w.unchanged(before, "the page")
}

// Of Redis, doctor asks in a read-only context only what it says about itself.
func TestDoctorWritesNothingToARedisThatIsReadOnly(t *testing.T) {
	t.Parallel()
	w := newWriterWorld(t)
	require.NoError(t, w.rdb.Client.Do(t.Context(), "ACL", "SETUSER", "looker-"+w.db.Name, "on", "nopass", "~*", "+@read", "+info", "+select", "+hello", "+client", "+config|get").Err())
	t.Cleanup(func() { w.rdb.Client.Do(t.Context(), "ACL", "DELUSER", "looker-"+w.db.Name) })
	file := w.env[2]
	text, err := os.ReadFile(strings.TrimPrefix(file, "OUTBOXCTL_CONFIG="))
	require.NoError(t, err)
	_, host, _ := strings.Cut(w.rdb.URL, "@")
	if host == "" {
		_, host, _ = strings.Cut(w.rdb.URL, "//")
	}
	require.NoError(t, os.WriteFile(strings.TrimPrefix(file, "OUTBOXCTL_CONFIG="),
		[]byte(strings.ReplaceAll(string(text), w.rdb.URL, "redis://looker-"+w.db.Name+":x@"+host)), 0o600))
	_, out, stderr := w.in(contextGuarded, "doctor", "-o", "json", "--jq", `.[] | select(.area == "redis") | .level`)
	require.Equal(t, "ok\n", out, stderr)
	_, out, _ = w.in(contextOpen, "doctor", "-o", "json", "--jq", `.[] | select(.area == "redis") | .level`)
	require.Equal(t, "fail\n", out, "elsewhere it tries whether a consumer could work")
}

// dev has servers of its own: what it migrates, publishes and makes up never reaches those of a context.
func TestDevLeavesEveryContext(t *testing.T) {
	t.Parallel()
	w := newWriterWorld(t)
	before := w.state()
	for _, name := range []string{contextOpen, contextGuarded} {
		app := cli.NewApp(cli.Streams{Out: io.Discard, Err: io.Discard}, append(slices.Clone(w.env), "OUTBOXCTL_CONTEXT="+name))
		app.LeaveContext()
		cfg, err := app.Config()
		require.NoError(t, err)
		require.Nil(t, cfg.Context)
		require.Empty(t, cfg.Database.URL)
	}
	// A folder that the servers' unprivileged user can enter, which t.TempDir is not when the tests run as root.
	dir, err := os.MkdirTemp(outboxtest.TempDir(), "outboxctl-dev-test-")
	require.NoError(t, errors.Join(err, os.Chmod(dir, 0o755)))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	w.env = append(w.env, "PATH="+os.Getenv("PATH"))
	code, _, stderr := w.in(contextOpen, "dev", "--demo", "--for", "1s", "--no-ui", "--logs", "--state-dir", dir)
	require.Equal(t, cli.ExitOK, code, stderr)
	w.unchanged(before, "dev")
	code, _, stderr = w.in(contextOpen, "dev", "--context", contextGuarded)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--context: dev starts servers of its own")
}
