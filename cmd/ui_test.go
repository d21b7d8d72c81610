package cmd

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
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
	go func() { ended <- runUI(ctx, app) }()
	line, readErr := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, readErr)
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/ops/`).FindString(line)
	require.NotEmpty(t, address, line)
	go func() { _, _ = io.Copy(io.Discard, said) }()

	response, getErr := http.Get(address) //nolint:noctx // the address is the test's own
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
	} {
		code, _, stderr := runCLI(t, append(env, "OUTBOXCTL_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"), "ui")
		require.Equal(t, cli.ExitUsage, code, "%v: %s", env, stderr)
	}
}
