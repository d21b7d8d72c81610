package cmd_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ctrl-C in the run of a plan names the command that goes on, as it does in a replay.
func TestAnInterruptedRunNamesTheCommandThatGoesOn(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(50, "no", `{"data": {}}`)
	code, _, talk := r.run(false, "", "dlq", "replay", "--since", "1d", "--plan")
	require.Zero(t, code, talk)
	var plan string
	require.NoError(t, r.db.Pool.QueryRow(t.Context(), "SELECT id::text FROM outbox_plans").Scan(&plan))
	run := exec.Command("outboxctl", "plan", "run", plan, "--yes", "--rate", "1/s")
	run.Env = r.env
	var stderr bytes.Buffer
	run.Stderr = &stderr
	require.NoError(t, run.Start())
	require.Eventually(t, func() bool { return r.count("SELECT count(*) FROM outbox_dlq WHERE state = 'replayed'") > 0 }, time.Minute, 20*time.Millisecond)
	require.NoError(t, run.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, run.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode(), stderr.String())
	require.Regexp(t, `(?m)^interrupted after [0-9]+ rows?; continue with: outboxctl plan run `+plan+` --rate 1/s$`, stderr.String())
}

// A person is asked about an age below a day; a cron line is not.
func TestCleanupAsksAPersonAboutLessThanADay(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	publish := func() {
		r.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
VALUES (gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', now() - interval '2 hours')`)
	}
	events := func() int { return r.count("SELECT count(*) FROM outbox_events") }
	publish()
	for _, answer := range []string{"n\n", "\n", ""} {
		code, _, talk := r.run(true, answer, "cleanup", "--older-than", "1h")
		require.Equal(t, 6, code, talk)
		require.Contains(t, talk, "would remove 1 published events")
		require.Contains(t, talk, "remove 1 row, some of less than a day ago")
		require.Equal(t, 1, events())
	}
	code, _, talk := r.run(true, "y\n", "cleanup", "--older-than", "1h")
	require.Zero(t, code, talk)
	require.Zero(t, events())
	for _, args := range [][]string{{"cleanup", "--older-than", "1h", "--yes"}, {"cleanup", "--older-than", "1d", "--dlq-older-than", "2d"}} {
		_, _, talk = r.run(true, "", args...)
		require.NotContains(t, talk, "less than a day ago", args)
	}
	publish()
	code, _, talk = r.run(false, "", "cleanup", "--older-than", "1h")
	require.Zero(t, code, talk)
	require.Zero(t, events())
}
