package cmd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/devstate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// devTimeout is how long a start or an end may take on a busy machine.
const devTimeout = 2 * time.Minute

// devStateDir is a folder that the servers' unprivileged user can enter, which t.TempDir is not when the tests run as root.
func devStateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(outboxtest.TempDir(), "outboxctl-dev-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// devEnv is an environment without the settings of the user who runs the tests.
func devEnv(dir string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "OUTBOXCTL_STATE_DIR=" + dir, "TMPDIR=" + os.TempDir()}
}

// outboxctl runs a command to its end.
func outboxctl(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return cmd.RunText(t.Context(), devEnv(dir), "", args...)
}

// devProcess is a running outboxctl dev.
type devProcess struct {
	*exec.Cmd
	info   devstate.Info
	talk   *bytes.Buffer
	exited chan error
}

func startDev(t *testing.T, dir string, args ...string) *devProcess {
	t.Helper()
	p := &devProcess{
		Cmd:    exec.Command("outboxctl", append([]string{"dev", "-o", "json"}, args...)...),
		talk:   &bytes.Buffer{},
		exited: make(chan error, 1),
	}
	p.Env, p.Stderr = devEnv(dir), p.talk
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	decodeErr := json.NewDecoder(stdout).Decode(&p.info)
	go func() { p.exited <- p.Wait() }()
	if decodeErr != nil {
		<-p.exited
		require.NoError(t, decodeErr, p.talk.String())
	}
	return p
}

// end sends a signal and returns the exit code.
func (p *devProcess) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	require.NoError(t, p.Process.Signal(signal))
	select {
	case <-p.exited:
		return p.ProcessState.ExitCode()
	case <-time.After(devTimeout):
		require.Fail(t, "outboxctl dev does not end")
		return 0
	}
}

// requireServersGone waits until the stack's servers do not answer any more. Another stack may have taken their ports at once, but it
// has passwords of its own. The fake has ended with the process.
func (p *devProcess) requireServersGone(t *testing.T) {
	t.Helper()
	options, err := redis.ParseURL(p.info.RedisURL)
	require.NoError(t, err)
	require.NotEmpty(t, options.Password)
	client := redis.NewClient(options)
	defer func() { require.NoError(t, client.Close()) }()
	for name, answers := range map[string]func() error{
		"PostgreSQL": func() error {
			conn, err := pgx.Connect(t.Context(), p.info.DatabaseURL)
			if err == nil {
				err = conn.Close(t.Context())
			}
			return err
		},
		"Redis": func() error { return client.Ping(t.Context()).Err() },
	} {
		require.Eventually(t, func() bool { return answers() != nil }, devTimeout, 10*time.Millisecond, name)
	}
}

func devQuery(t *testing.T, p *devProcess, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.info.DatabaseURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	var value string
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&value))
	return value
}

func TestDevLivesThroughItsDays(t *testing.T) {
	t.Parallel()
	dir := devStateDir(t)

	first := startDev(t, dir)
	require.Equal(t, first.Process.Pid, first.info.PID)
	found, err := devstate.Discover(dir)
	require.NoError(t, err)
	require.Equal(t, &first.info, found)

	// Other commands find it and say so.
	code, out, talk := outboxctl(t, dir, "migrate", "status", "-o", "json")
	require.Zero(t, code, talk)
	require.NotContains(t, out, `"pending"`)
	require.Contains(t, talk, "using the running dev stack")
	code, out, talk = outboxctl(t, dir, "topic", "list", "-o", "id")
	require.Zero(t, code, talk)
	require.Contains(t, out, "pf-domain-events")

	// The page is where it says, and the link signs in.
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar}
	require.Eventually(t, func() bool {
		response, err := client.Get(first.info.UIURL)
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, devTimeout, 50*time.Millisecond)
	client.CloseIdleConnections()

	// A second one on the same folder is refused, by name.
	code, _, talk = outboxctl(t, dir, "dev")
	require.Equal(t, 4, code)
	require.Contains(t, talk, fmt.Sprintf("process %d is using it", first.Process.Pid))

	// Killed, it leaves nothing running, and the next one starts with the rows of the first.
	devExec(t, first, "CREATE TABLE mark AS SELECT 'kept' AS word")
	require.Equal(t, -1, first.end(t, syscall.SIGKILL))
	if runtime.GOOS == "linux" { // elsewhere the next start ends what was left
		first.requireServersGone(t)
	}
	_, err = devstate.Discover(dir)
	require.ErrorIs(t, err, devstate.ErrNotRunning)
	second := startDev(t, dir)
	require.Equal(t, "kept", devQuery(t, second, "SELECT word FROM mark"))

	// Ctrl-C leaves nothing behind but the state.
	require.Equal(t, 128+int(syscall.SIGINT), second.end(t, syscall.SIGINT), second.talk.String())
	second.requireServersGone(t)
	require.NoFileExists(t, filepath.Join(dir, "stack.json"))
	require.NoFileExists(t, filepath.Join(dir, "postgres", "postmaster.pid"))

	// A reset is asked for twice, and then takes the rows with it.
	code, _, talk = outboxctl(t, dir, "dev", "--reset")
	require.Equal(t, 6, code, talk)
	third := startDev(t, dir, "--reset", "--yes", "--no-ui")
	require.Empty(t, third.info.UIURL)
	require.Equal(t, "0", devQuery(t, third, "SELECT count(*)::text FROM pg_class WHERE relname = 'mark'"))

	// A schema that was migrated by another binary is no case for migrate.
	devExec(t, third, "ALTER TABLE outbox_catalogue RENAME COLUMN revision TO edition")
	require.Equal(t, 128+int(syscall.SIGTERM), third.end(t, syscall.SIGTERM), third.talk.String())
	code, _, talk = outboxctl(t, dir, "dev", "--no-ui")
	require.Equal(t, 4, code, talk)
	require.Contains(t, talk, "column c.revision does not exist")
	require.Contains(t, talk, "dev --reset begins with an empty one")
	require.NotContains(t, talk, "outboxctl migrate")
}

func devExec(t *testing.T, p *devProcess, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.info.DatabaseURL)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func TestDevEndsByItselfAfterTheDemo(t *testing.T) {
	t.Parallel()
	testDevDemo(t, []string{"--demo"}, []string{"mostly order_", "mostly line_item", "mostly notification"})
}

func TestTheDemoIsOfTheBuiltInTypes(t *testing.T) {
	t.Parallel()
	own, err := filepath.Abs("../testdata/catalogue/doorito.yaml")
	require.NoError(t, err)
	dir := devStateDir(t)
	code, _, talk := outboxctl(t, dir, "dev", "--demo", "--catalogue", own, "--state-dir", dir)
	require.Equal(t, 2, code, talk)
	require.Contains(t, talk, "--demo produces events of the built-in types")
}

func testDevDemo(t *testing.T, args, types []string) {
	t.Helper()
	dir := devStateDir(t)
	var code int
	var out, talk string
	// How much happens in two seconds depends on the machine: a busy one is given more of them.
	for _, enough := range []string{"2s", "10s", "60s"} {
		code, out, talk = outboxctl(t, dir, append([]string{"dev", "--demo-rate", "500", "--for", enough, "--state-dir", dir}, args...)...)
		require.Zero(t, code, talk)
		if lastFigure(`demo: (\d+) events emitted, \d+ of them meant to fail`, talk) > 0 && lastFigure(`(?m)^outbox: (\d+) published since the start`, talk) > 0 {
			break
		}
	}
	require.True(t, slices.ContainsFunc(types, func(of string) bool { return strings.Contains(talk, of) }), talk)
	require.Contains(t, talk, "other commands find this stack with: export OUTBOXCTL_STATE_DIR="+dir+"\n")
	require.Contains(t, talk, "stopped\n")
	require.Regexp(t, `(?m)^export DATABASE_URL='postgres://`, out)
	require.Positive(t, lastFigure(`demo: (\d+) events emitted, \d+ of them meant to fail`, talk), talk)
	require.Positive(t, lastFigure(`(?m)^outbox: (\d+) published since the start`, talk), "the publisher runs beside the demo: %s", talk)
}

// lastFigure is the number in the last line of talk that matches, -1 where none does.
func lastFigure(pattern, talk string) int {
	lines := regexp.MustCompile(pattern).FindAllStringSubmatch(talk, -1)
	if len(lines) == 0 {
		return -1
	}
	figure, err := strconv.Atoi(lines[len(lines)-1][1])
	if err != nil {
		return -1
	}
	return figure
}

// A server that dies under it must not leave a dev that looks alive.
func TestDevEndsWhenAServerDies(t *testing.T) {
	t.Parallel()
	dir := devStateDir(t)
	p := startDev(t, dir)
	content, err := os.ReadFile(filepath.Join(dir, "postgres", "postmaster.pid"))
	require.NoError(t, err)
	postmaster, err := strconv.Atoi(strings.SplitN(string(content), "\n", 2)[0])
	require.NoError(t, err)

	require.NoError(t, syscall.Kill(postmaster, syscall.SIGQUIT))
	select {
	case <-p.exited:
	case <-time.After(devTimeout):
		require.Fail(t, "outboxctl dev goes on without its database")
	}
	require.Equal(t, 1, p.ProcessState.ExitCode())
	require.Contains(t, p.talk.String(), "keep PostgreSQL running: it has ended by itself")
}

func TestDevRefusesBadInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"another server": {[]string{"--database-url", "postgres://db/x"}, "dev starts servers of its own"},
		"no rate":        {[]string{"--demo", "--demo-rate", "0"}, "--demo-rate 0: must be above 0"},
		"negative time":  {[]string{"--for", "-3s"}, "must not be negative"},
		"table":          {[]string{"-o", "table"}, "none of env, json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, talk := outboxctl(t, t.TempDir(), append([]string{"dev"}, tc.args...)...)
			require.Equal(t, 2, code)
			require.Empty(t, out)
			require.Contains(t, talk, tc.says)
		})
	}
}
