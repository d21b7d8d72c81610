package cmd

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/check"
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
		"no schema":              {url: outboxtest.EmptyDB(t).URL, want: `.*the database.s schema is missing or old: relation .* does not exist`},
		"bad threshold":          {args: []string{"--max-backlog", "a|b"}, want: `invalid argument "a/b" for "--max-backlog" flag: "a/b" is not a count`},
		"unexpected argument":    {args: []string{"now"}, want: `unknown command "now" for "outboxctl check"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := runCLI(t, []string{"HOME=" + t.TempDir(), "DATABASE_URL=" + tc.url}, append([]string{"check"}, tc.args...)...)
			require.Equal(t, check.Unknown, code, stderr)
			require.Regexp(t, "^OUTBOX UNKNOWN - "+tc.want+"\n$", out)
			require.NotContains(t, stderr, "error: ", "once is enough")
			require.Contains(t, stderr, "hint: ")
			require.NotContains(t, out+stderr, "canary")
		})
	}
}

// A verdict that was not printed is no OK.
func TestCheckThatCannotPrintIsUnknown(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	code := Run(t.Context(), []string{"check"}, cli.Streams{Out: fullDisk{}, Err: &stderr}, []string{"DATABASE_URL=" + outboxtest.DB(t).URL})
	require.Equal(t, check.Unknown, code)
	require.Contains(t, stderr.String(), "no space left")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// While the broker is away, the line says so, raises the alarm and names what raised it.
func TestCheckNamesTheTopicThatIsDown(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `
INSERT INTO outbox_publishers (id, host, pid, version, last_seen_at, state)
SELECT gen_random_uuid(), 'one', 11, 'v1', now() + interval '1 hour',
       jsonb_build_object('topics', jsonb_build_array(jsonb_build_object(
           'topic', 'domain', 'state', 'unreachable', 'error', 'away', 'since', now() - interval '2 minutes')))`)
	require.NoError(t, err)
	env := []string{"DATABASE_URL=" + db.URL}
	for _, tc := range []struct {
		args  []string
		code  int
		begin string
	}{
		{nil, int(check.Warning), `OUTBOX WARNING - topic domain has been unreachable for \d+m\d+s, above 0s; backlog 0, `},
		{[]string{"--max-topic-outage", "1m"}, int(check.Critical), `OUTBOX CRITICAL - topic domain has been unreachable for \d+m\d+s, above 1m0s; backlog 0, `},
		{[]string{"--max-topic-outage", "1d"}, int(check.OK), `OUTBOX OK - topic domain has been unreachable for \d+m\d+s, backlog 0, `},
	} {
		code, out, stderr := runCLI(t, env, append([]string{"check"}, tc.args...)...)
		require.Equal(t, tc.code, code, stderr)
		require.Regexp(t, "^"+tc.begin+`.* \| .* topic_outage=[0-9.]+s;`, out)
	}
}
