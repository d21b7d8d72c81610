package cmd

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A monitoring system shows the first line of stdout, whatever went wrong.
func TestCheckSaysUnknownOnStdout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		url  string
		args []string
		want string
	}{
		"no database configured": {want: `configuration: database\.url is not set .*`},
		"database away":          {url: "postgres://app:canary@127.0.0.1:1/x", want: `connect to the database .*127\.0\.0\.1:1/x.*`},
		"no schema":              {url: outboxtest.EmptyDB(t).URL, want: `.* does not exist \(SQLSTATE 42P01\)`},
		"bad threshold":          {args: []string{"--max-backlog", "a|b"}, want: `invalid argument "a/b" for "--max-backlog" flag: "a/b" is not a count`},
		"unexpected argument":    {args: []string{"now"}, want: `unexpected argument "now"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := runCLI(t, []string{"HOME=" + t.TempDir(), "DATABASE_URL=" + tc.url}, append([]string{"check"}, tc.args...)...)
			require.Equal(t, checkUnknown, code, stderr)
			require.Regexp(t, "^OUTBOX UNKNOWN - "+tc.want+"\n$", out)
			require.Contains(t, stderr, "error: ")
			require.NotContains(t, out+stderr, "canary")
		})
	}
}

// A verdict that nobody could read is no OK.
func TestCheckThatCannotPrintIsUnknown(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	code := Run(t.Context(), []string{"check"}, cli.Streams{Out: fullDisk{}, Err: &stderr}, []string{"DATABASE_URL=" + outboxtest.DB(t).URL})
	require.Equal(t, checkUnknown, code)
	require.Contains(t, stderr.String(), "no space left")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
