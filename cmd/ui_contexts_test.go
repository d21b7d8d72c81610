package cmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/signin"
)

// One sign-in opens the pages of all contexts, each under its name, with a menu between them. One whose database is away has a
// page too, and one that is read-only offers no changes.
func TestUIOfSeveralContexts(t *testing.T) {
	t.Parallel()
	one, two := outboxtest.DB(t), outboxtest.DB(t)
	file := filepath.Join(t.TempDir(), "outboxctl.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `contexts:
  one: {database: {url: %q}, ui: {label: First}}
  two: {database: {url: %q}, read_only: true}
  away: {database: {url: "postgres://x@127.0.0.1:1/x"}}
`, one.URL, two.URL), 0o600))
	said, write := io.Pipe()
	app := cli.NewApp(cli.Streams{Out: io.Discard, Err: write}, []string{
		"OUTBOXCTL_CONFIG=" + file, "OUTBOXCTL_CONTEXT=one,two,away", "OUTBOXCTL_UI_ADDR=127.0.0.1:0", "OUTBOXCTL_UI_ALLOW_CHANGES=true",
		"OUTBOXCTL_UI_BASE_PATH=/ops",
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runUI(ctx, &uiOptions{app: app, token: signin.NewToken()}) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, write.Close())
		require.NoError(t, app.Close())
	})
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	for err == nil && !strings.HasPrefix(line, "serving ") {
		line, err = lines.ReadString('\n')
	}
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, said) }()
	address := strings.Fields(line)[1]
	root := address[:strings.Index(address, "/ops/")+len("/ops/")]

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar}
	t.Cleanup(client.CloseIdleConnections)
	get := func(path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		require.NoError(t, err)
		return fetchTest(t, client, request)
	}
	code, _ := get(root + "one/")
	require.Equal(t, http.StatusUnauthorized, code)
	code, body := get(address)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "First")
	require.Contains(t, body, `<a href="/ops/one/" aria-current="true">`)
	require.Contains(t, body, `<a href="/ops/two/">`)
	code, body = get(root + "two/settings")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, two.Name)
	require.NotContains(t, body, one.Name)
	code, body = get(root + "away/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "x on 127.0.0.1:1")
	for name, changes := range map[string]bool{"one": true, "two": false} {
		_, body = get(root + name + "/")
		require.Equal(t, changes, strings.Contains(body, `/assets/changes`), name)
	}
	code, _ = get(root + "nowhere/")
	require.Equal(t, http.StatusNotFound, code)
	code, _ = get(root + "healthz")
	require.Equal(t, http.StatusOK, code)
	require.Eventually(t, func() bool { code, _ := get(root + "readyz"); return code == http.StatusOK }, time.Minute, 10*time.Millisecond)
}
