package cmd

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/signin"
)

// The page says where it is, answers there, and ends with its context.
func TestUIServesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	said, err := io.Pipe()
	app := cli.NewApp(cli.Streams{Out: io.Discard, Err: err}, []string{
		"OUTBOXCTL_DATABASE_URL=" + db.URL, "OUTBOXCTL_UI_ADDR=127.0.0.1:0", "OUTBOXCTL_UI_BASE_PATH=/ops", "OUTBOXCTL_UI_LABEL=shop",
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runUI(ctx, &uiOptions{app: app, token: signin.NewToken()}) }()
	line, readErr := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, readErr)
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/ops/`).FindString(line)
	require.NotEmpty(t, address, line)
	go func() { _, _ = io.Copy(io.Discard, said) }()

	response, getErr := http.Get(address)
	require.NoError(t, getErr)
	body, readErr := io.ReadAll(response.Body)
	require.NoError(t, readErr)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Contains(t, string(body), "shop")
	http.DefaultClient.CloseIdleConnections()
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, err.Close())
	require.NoError(t, app.Close())
}

func TestUIRefusesToBeOpenToOthers(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{
		{"OUTBOXCTL_UI_ADDR=0.0.0.0:9466"}, {"OUTBOXCTL_UI_ADDR=:9466"}, {"OUTBOXCTL_UI_ADDR=192.0.2.1:9466"}, {"OUTBOXCTL_UI_ADDR=db.example.com:9466"},
		{"OUTBOXCTL_UI_PUBLIC_URL=ops.example.com"}, {"OUTBOXCTL_UI_PUBLIC_URL=ftp://ops.example.com"}, {"OUTBOXCTL_UI_COLOR=pink"},
		{"OUTBOXCTL_UI_ADDR=127.0.0.1:0", "OUTBOXCTL_UI_BASE_PATH=ops"},
		{"OUTBOXCTL_UI_AUTH=magic"}, {"OUTBOXCTL_UI_AUTH=users"}, {"OUTBOXCTL_UI_AUTH=users", "OUTBOXCTL_UI_USERS=ann:operator:hunter2"},
		{"OUTBOXCTL_UI_AUTH=users", "OUTBOXCTL_UI_USERS_FILE=/does/not/exist"}, {"OUTBOXCTL_UI_AUTH=jwt", "OUTBOXCTL_UI_JWT_PRESET=iap"},
		{"OUTBOXCTL_UI_AUTH=jwt", "OUTBOXCTL_UI_JWT_PRESET=iap", "OUTBOXCTL_UI_JWT_AUDIENCE=x", "OUTBOXCTL_UI_JWT_ALGS=HS256"},
		{"OUTBOXCTL_UI_OPERATORS=*@example.com"}, {"OUTBOXCTL_UI_PAYLOADS=reveal", "OUTBOXCTL_UI_AUTH=none"}, {"OUTBOXCTL_UI_PAYLOADS=on"}, {"OUTBOXCTL_UI_TLS_CERT=x.pem"}, {"OUTBOXCTL_UI_TLS_CERT=x.pem", "OUTBOXCTL_UI_TLS_KEY=x.key"},
		{"OUTBOXCTL_UI_ADDR=0.0.0.0:0", "OUTBOXCTL_UI_PUBLIC_URL=https://ops.example.com"},
		{"OUTBOXCTL_UI_ADDR=0.0.0.0:0", "OUTBOXCTL_UI_PUBLIC_URL=https://ops.example.com", "OUTBOXCTL_UI_AUTH=none"},
		{"OUTBOXCTL_UI_ADDR=0.0.0.0:0", "OUTBOXCTL_UI_PUBLIC_URL=https://ops.example.com", "OUTBOXCTL_UI_AUTH=link"},
		{"OUTBOXCTL_UI_ADDR=0.0.0.0:0", "OUTBOXCTL_UI_AUTH=users", "OUTBOXCTL_UI_USERS=" + someUser},
		{"OUTBOXCTL_UI_ADDR=0.0.0.0:0", "OUTBOXCTL_UI_PUBLIC_URL=http://ops.example.com", "OUTBOXCTL_UI_AUTH=users", "OUTBOXCTL_UI_USERS=" + someUser},
	} {
		code, _, stderr := runCLI(t, append(env, "OUTBOXCTL_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"), "ui")
		require.Equal(t, cli.ExitUsage, code, "%v: %s", env, stderr)
		require.NotContains(t, stderr, "hunter2")
	}
	_, _, stderr := runCLI(t, []string{"OUTBOXCTL_DATABASE_URL=postgres://nobody@127.0.0.1:1/none", "OUTBOXCTL_UI_ADDR=0.0.0.0:0", "OUTBOXCTL_UI_AUTH=none", "OUTBOXCTL_UI_TLS_KEY=x"}, "ui")
	require.Contains(t, stderr, "3 problems", "all of them at once")
}

// someUser is a line of ui.users: a script with a token.
const someUser = "ci:operator:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// A page that is reached from elsewhere asks people to sign in, under its own name and no other.
func TestUIOffThisMachine(t *testing.T) {
	t.Parallel()
	address, stop := serveTestUI(t, "OUTBOXCTL_UI_ADDR=0.0.0.0:0", "OUTBOXCTL_UI_AUTH=users", "OUTBOXCTL_UI_USERS="+someUser, "OUTBOXCTL_UI_PUBLIC_URL=https://ops.example.com", "OUTBOXCTL_UI_ALLOW_CHANGES=true")
	require.Equal(t, "https://ops.example.com/", address.said)
	for _, tc := range []struct {
		host, token string
		want        int
	}{
		{"ops.example.com", "", http.StatusUnauthorized},
		{"ops.example.com", "test", http.StatusOK},
		{"ops.example.com", "other", http.StatusUnauthorized},
		{"evil.example", "test", http.StatusMisdirectedRequest},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address.local, nil)
		require.NoError(t, err)
		request.Host = tc.host
		if tc.token != "" {
			request.Header.Set("Authorization", "Bearer "+tc.token)
		}
		status, body := fetchTest(t, http.DefaultClient, request)
		require.Equal(t, tc.want, status, "%v: %s", tc, body)
		if status == http.StatusOK {
			require.Contains(t, body, "<bdi>ci</bdi> · Operator")
		}
	}
	stop()
}

// With changes the page is for those who have the link.
func TestUIIsEnteredByItsLink(t *testing.T) {
	t.Parallel()
	address, stop := serveTestUI(t, "OUTBOXCTL_UI_ADDR=127.0.0.1:0", "OUTBOXCTL_UI_ALLOW_CHANGES=true", "OUTBOXCTL_UI_BASE_PATH=/ops", "OUTBOXCTL_ACTOR=ann@example.com")
	require.Contains(t, address.said, "/ops/?token=")
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar}
	get := func(at string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		require.NoError(t, err)
		return fetchTest(t, client, request)
	}
	bare, _, _ := strings.Cut(address.said, "?")
	status, body := get(bare)
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, body, "the link that was printed")
	status, body = get(address.said)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<bdi>ann@example.com</bdi> · Operator")
	require.NotContains(t, body, "token=")
	status, _ = get(bare + "causes")
	require.Equal(t, http.StatusOK, status)
	client.CloseIdleConnections()
	stop()
}

// testUI is where a page says it is, and where it is for this machine.
type testUI struct{ said, local string }

// serveTestUI runs a page over a database of its own until stop is called.
func serveTestUI(t *testing.T, env ...string) (at testUI, stop func()) {
	t.Helper()
	db := outboxtest.DB(t)
	said, talk := io.Pipe()
	app := cli.NewApp(cli.Streams{Out: io.Discard, Err: talk}, append(env, "OUTBOXCTL_DATABASE_URL="+db.URL))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runUI(ctx, &uiOptions{app: app, token: signin.NewToken()}) }()
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	for err == nil && !strings.HasPrefix(line, "serving ") {
		line, err = lines.ReadString('\n')
	}
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, said) }()
	at.said = regexp.MustCompile(`https?://\S+`).FindString(line)
	at.local = at.said
	if found := regexp.MustCompile(`on (\S+):(\d+);`).FindStringSubmatch(line); found != nil {
		at.local = "http://127.0.0.1:" + found[2] + "/"
	}
	return at, func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, talk.Close())
		require.NoError(t, app.Close())
	}
}

func fetchTest(t *testing.T, client *http.Client, request *http.Request) (status int, body string) {
	t.Helper()
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content)
}
