package cmd

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/signin"
	"github.com/outboxctl/outboxctl/ui"
)

// openedUI runs the page until the test ends and returns the address that a browser is told to open.
func openedUI(t *testing.T, token string, env ...string) (address string) {
	t.Helper()
	dir := t.TempDir()
	browser, seen := filepath.Join(dir, "browser"), filepath.Join(dir, "seen")
	require.NoError(t, os.WriteFile(browser, []byte("printf %s \"$1\" > "+seen+".part && mv "+seen+".part "+seen+"\n"), 0o600))
	app := cli.NewApp(cli.Streams{Out: io.Discard, Err: io.Discard}, append(env, "OUTBOXCTL_DATABASE_URL="+outboxtest.DB(t).URL, "OUTBOXCTL_UI_ADDR=127.0.0.1:0", "BROWSER=sh "+browser))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runUI(ctx, &uiOptions{app: app, token: token, open: true}) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, app.Close())
	})
	var text []byte
	require.Eventually(t, func() bool { text, _ = os.ReadFile(seen); return len(text) > 0 }, time.Minute, 10*time.Millisecond)
	return string(text)
}

// What a browser is given on its command line, where all users of the machine may read it, lets in once.
func TestOpenGivesTheBrowserALinkForOnce(t *testing.T) {
	t.Parallel()
	token := signin.NewToken()
	address := openedUI(t, token, "OUTBOXCTL_UI_ALLOW_CHANGES=true")
	require.NotContains(t, address, token)
	for _, want := range []int{http.StatusSeeOther, http.StatusUnauthorized} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		status, _ := fetchTest(t, client, request)
		require.Equal(t, want, status)
	}
	http.DefaultClient.CloseIdleConnections()
}

// With a certificate of its own the page speaks TLS and HTTP/2, and nothing else.
func TestUIWithItsOwnCertificate(t *testing.T) {
	t.Parallel()
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	pair := other.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	files := map[string]string{}
	for kind, der := range map[string][]byte{"CERTIFICATE": pair.Certificate[0], "PRIVATE KEY": key} {
		files[kind] = filepath.Join(t.TempDir(), "pem")
		require.NoError(t, os.WriteFile(files[kind], pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	address := openedUI(t, signin.NewToken(), "OUTBOXCTL_UI_TLS_CERT="+files["CERTIFICATE"], "OUTBOXCTL_UI_TLS_KEY="+files["PRIVATE KEY"])
	require.True(t, strings.HasPrefix(address, "https://127.0.0.1:"), address)
	trusted := x509.NewCertPool()
	trusted.AddCert(other.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	for to, want := range map[string]struct{ status, version int }{address: {http.StatusOK, 2}, strings.Replace(address, "https", "http", 1): {http.StatusBadRequest, 1}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
		require.NoError(t, err)
		response, err := transport.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want.status, response.StatusCode, to)
		require.Equal(t, want.version, response.ProtoMajor, to)
	}
}

// A role under which nothing can be read is refused at the start, where the operator sees it.
func TestUIRefusesARoleThatDoesNotExist(t *testing.T) {
	t.Parallel()
	code, _, stderr := runCLI(t, []string{"OUTBOXCTL_DATABASE_URL=" + outboxtest.DB(t).URL, "OUTBOXCTL_UI_ADDR=127.0.0.1:0", "OUTBOXCTL_UI_READ_ROLE=no_such_role"}, "ui")
	require.Equal(t, cli.ExitPrecondition, code, stderr)
	require.Contains(t, stderr, "no such role")
}

// In the second database of a server the default role has no rights, and the page says so itself; a role that was chosen must
// have them.
func TestUIReadsTheSecondDatabaseOfAServer(t *testing.T) {
	t.Parallel()
	pool := outboxtest.EmptyDB(t).Pool
	_, err := migrate.Up(t.Context(), pool, migrate.Options{})
	require.NoError(t, err)
	require.NoError(t, checkReadRole(t.Context(), pool, ui.DefaultReadRole))
	require.ErrorIs(t, checkReadRole(t.Context(), pool, "outbox_operator"), pgread.ErrNoRights)
}

// Where a platform restarts what ends, a page without its settings stays and says that it is not set up, and nothing else.
func TestProblemsAreServedWhereTheyMustNotEndTheProcess(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	said := bufio.NewScanner(in)
	app := cli.NewApp(cli.Streams{Out: io.Discard, Err: out}, []string{"OUTBOXCTL_DATABASE_URL=postgres://nobody:hunter2@127.0.0.1:1/none", "OUTBOXCTL_UI_AUTH=users", "OUTBOXCTL_UI_ADDR=127.0.0.1:0"})
	problem := runUI(t.Context(), &uiOptions{app: app})
	require.True(t, isUIProblem(problem), "%v", problem)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveUIProblem(ctx, app, problem) }()
	var log, address string
	for address == "" && said.Scan() {
		log += said.Text()
		_, address, _ = strings.Cut(said.Text(), "answering 503 on ")
	}
	require.NoError(t, in.Close())
	require.Contains(t, log, "ui.users")
	require.NotContains(t, log, "hunter2")
	client := &http.Client{}
	ask := func(path string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	status, _ := ask("/healthz")
	require.Equal(t, http.StatusOK, status)
	for _, path := range []string{"/", "/readyz", "/dead-letters", "/settings"} {
		status, body := ask(path)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
		require.Equal(t, "this page is not set up: its log says what is missing\n", body)
	}
	client.CloseIdleConnections()
	cancel()
	require.NoError(t, <-ended)
	require.False(t, isUIProblem(context.Canceled))
}
