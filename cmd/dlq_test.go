package cmd_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// dlqRig runs commands against a database with dead letters in it.
type dlqRig struct {
	t   *testing.T
	db  *outboxtest.Database
	env []string
}

func newDLQRig(t *testing.T) *dlqRig {
	t.Helper()
	db := outboxtest.DB(t)
	return &dlqRig{t: t, db: db, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "OUTBOXCTL_DATABASE_URL=" + db.URL,
		"OUTBOXCTL_REDIS_URL=redis://127.0.0.1:1/0", "OUTBOXCTL_ACTOR=ann",
	}}
}

func (r *dlqRig) exec(sql string, args ...any) {
	r.t.Helper()
	_, err := r.db.Pool.Exec(context.Background(), sql, args...)
	require.NoError(r.t, err)
}

func (r *dlqRig) count(sql string) (n int) {
	r.t.Helper()
	require.NoError(r.t, r.db.Pool.QueryRow(context.Background(), sql).Scan(&n))
	return n
}

// die makes n dead events with their dead letters, all with one error and payload.
func (r *dlqRig) die(n int, message, payload string) {
	r.t.Helper()
	r.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, dead_at, attempt_count, last_error)
SELECT outbox_uuid_v7(), 'order_canceled', 'vendor_order', gen_random_uuid(), $2::text::jsonb, now() - interval '2 hours', now() - interval '1 hour', 10, $3
  FROM generate_series(1, $1::int)`, n, payload, message)
	r.exec(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, fingerprint, event_created_at)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', last_error, 10, dead_at, 'domain', last_error, created_at FROM outbox_events WHERE dead_at IS NOT NULL`)
}

func (r *dlqRig) id() (id string) {
	r.t.Helper()
	require.NoError(r.t, r.db.Pool.QueryRow(context.Background(), "SELECT id::text FROM outbox_dlq ORDER BY failed_at DESC, id DESC LIMIT 1").Scan(&id))
	return id
}

// run runs one command line; tty makes all three streams terminals.
func (r *dlqRig) run(tty bool, stdin string, args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	var out, err bytes.Buffer
	streams := cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &err, InTTY: tty, OutTTY: tty, ErrTTY: tty}
	if tty {
		streams.Width = 200
	}
	code = cmd.Run(context.Background(), args, streams, r.env)
	return code, out.String(), err.String()
}

func TestDLQExitCodes(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(2, "no", `{"data": {}}`)
	id, unknown := r.id(), uuid.NewString()
	for _, step := range []struct {
		code int
		args []string
	}{
		{0, []string{"dlq", "list"}},
		{0, []string{"dlq"}},
		{2, []string{"dlq", "nonsense"}},
		{2, []string{"dlq", "list", "--state", "odd"}},
		{2, []string{"dlq", "list", "--type", "odd"}},
		{3, []string{"dlq", "list", "--cursor", unknown}},
		{2, []string{"dlq", "show", "odd"}},
		{2, []string{"dlq", "show"}},
		{2, []string{"dlq", "show", id, "--payload", "odd"}},
		{3, []string{"dlq", "show", unknown}},
		{0, []string{"dlq", "show", id}},
		{2, []string{"dlq", "replay"}},
		{2, []string{"dlq", "replay", "--yes"}},
		{6, []string{"dlq", "replay", id}},
		{6, []string{"dlq", "replay", "--type", "order_canceled"}},
		{0, []string{"dlq", "replay", id, "--dry-run"}},
		{3, []string{"dlq", "replay", unknown, "--dry-run"}},
		{3, []string{"dlq", "replay", unknown, "--yes"}},
		{2, []string{"dlq", "replay", "--type", "order_canceled", "--plan", "--dry-run"}},
		{0, []string{"dlq", "replay", "--type", "order_canceled", "--plan"}},
		{6, []string{"dlq", "discard", id}},
		{0, []string{"dlq", "discard", id, "--yes"}},
		{4, []string{"dlq", "discard", id, "--yes"}},
		{4, []string{"dlq", "replay", id, "--dry-run"}},
		{4, []string{"dlq", "replay", id, "--yes"}},
		{0, []string{"dlq", "restore", id, "--yes"}},
		{5, []string{"dlq", "replay", id, unknown, "--dry-run"}},
		{5, []string{"dlq", "replay", id, unknown, "--yes"}},
		{4, []string{"dlq", "replay", id, "--yes"}},
		{0, []string{"dlq", "replay", "--type", "order_canceled", "--yes"}},
		{0, []string{"dlq", "export"}},
		{3, []string{"dlq", "export", unknown}},
		{0, []string{"audit"}},
		{2, []string{"audit", "--event", "odd"}},
		{0, []string{"event", "list"}},
		{2, []string{"event", "list", "--status", "odd"}},
		{2, []string{"event", "list", "--status", "pending", "--state", "dead"}},
		{3, []string{"event", "show", unknown}},
		{2, []string{"event", "republish"}},
		{3, []string{"event", "republish", unknown, "--yes"}},
		{0, []string{"why", id}},
		{3, []string{"why", unknown}},
		{2, []string{"why", "odd"}},
	} {
		code, _, stderr := r.run(false, "", step.args...)
		require.Equal(t, step.code, code, "%v: %s", step.args, stderr)
		if code != 0 && code != 3 {
			require.Contains(t, stderr, "error: ", "%v", step.args)
		}
	}
	r.env[2] = "OUTBOXCTL_DATABASE_URL=postgres://nobody:canary@127.0.0.1:1/x"
	code, _, stderr := r.run(false, "", "dlq", "list")
	require.Equal(t, 4, code)
	require.NotContains(t, stderr, "canary")
}

// What events and brokers say is shown, never obeyed: not in any form, on a terminal or on a pipe.
// stripPaint removes the colours this program itself writes.
func TestReplayAsksAtATerminal(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(3, "no route to broker", `{"data": {}}`)
	code, _, stderr := r.run(true, "n\n", "dlq", "replay", "--type", "order_canceled")
	require.Equal(t, 6, code)
	for _, text := range []string{"max_attempts: 3 dead letters", "no route to broker", "cause no route to broker: 3 dead letters", "replay 3 dead letters in " + r.db.Name + " on 127.0.0.1:"} {
		require.Contains(t, stderr, text)
	}
	require.Equal(t, 3, r.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
	code, _, _ = r.run(true, "y\n", "dlq", "replay", "--type", "order_canceled")
	require.Equal(t, 0, code)
	require.Equal(t, 0, r.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
}

// Killed in the middle and run again: every row is replayed once.
func TestReplayKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	const rows = 4000
	r.die(rows, "no", `{"data": {}}`)
	replay := exec.Command("outboxctl", "dlq", "replay", "--type", "order_canceled", "--yes", "--rate", "2000/s", "-o", "id")
	replay.Env = r.env
	require.NoError(t, replay.Start())
	require.Eventually(t, func() bool { return r.count("SELECT count(*) FROM outbox_audit") > 1 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, replay.Process.Kill())
	require.ErrorContains(t, replay.Wait(), "killed")
	left := r.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'")
	require.Positive(t, left, "killed too late to prove anything")
	require.Less(t, left, rows)

	code, stdout, stderr := r.run(false, "", "dlq", "replay", "--type", "order_canceled", "--yes", "-o", "id")
	require.Equal(t, 0, code, stderr)
	require.Equal(t, left, strings.Count(stdout, "\n"))
	require.Equal(t, rows, r.count("SELECT sum(affected) FROM outbox_audit"))
	require.Equal(t, rows, r.count("SELECT count(DISTINCT x) FROM outbox_audit, jsonb_array_elements_text(detail -> 'eventIds') AS x"))
	require.Equal(t, rows, r.count("SELECT count(*) FROM outbox_event_status WHERE status = 'pending'"))
}

// The database finds nothing for a misspelt name, which is no mistake; a person is told what was likely meant.
// Replayed events are published, or die again as a second dead letter; the list of open ones says which.
func TestReplayedEventsLiveOrDieAgain(t *testing.T) {
	t.Parallel()
	p := newPublishRig(t)
	r := &dlqRig{t: t, db: p.db, env: append(p.env(), "OUTBOXCTL_REDIS_URL=redis://127.0.0.1:1/0", "OUTBOXCTL_ACTOR=ann")}
	good, bad := uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewV7()).String()
	for id, data := range map[string]string{good: `{}`, bad: `{"nonsense": true}`} {
		r.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
VALUES ($1::text::uuid, 'order_canceled', 'vendor_order', gen_random_uuid(),
        jsonb_build_object('version', 1, 'eventId', $1::text, 'occurredAt', '2026-03-01T12:00:00Z', 'data', $2::text::jsonb))`, id, data)
	}
	publish := func() {
		t.Helper()
		code, _, stderr := r.run(false, "", "publish", "--once")
		require.Equal(t, 5, code, stderr) // one dies each time
	}
	// The good one died too, of something that is fixed now.
	r.exec("UPDATE outbox_events SET dead_at = now() WHERE id = $1::text::uuid", good)
	r.exec(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, topic, fingerprint)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'no', 10, 'domain', 'f' FROM outbox_events WHERE id = $1::text::uuid`, good)
	publish()
	require.Equal(t, 2, r.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
	code, _, stderr := r.run(false, "", "dlq", "replay", good, bad, "--force", "--yes")
	require.Equal(t, 0, code, stderr)
	publish()
	_, stdout, _ := r.run(false, "", "dlq", "list", "-o", "jsonl")
	require.Equal(t, 1, strings.Count(stdout, "\n"))
	require.Contains(t, stdout, fmt.Sprintf(`"eventId":%q`, bad))
	_, stdout, _ = r.run(false, "", "dlq", "show", bad)
	require.Equal(t, 2, strings.Count(stdout, "died of invalid_payload"), stdout)
	require.Equal(t, 1, strings.Count(stdout, "replayed by ann"), stdout)
	_, stdout, _ = r.run(false, "", "why", good)
	require.Contains(t, stdout, "was published")
}

// However many rows are asked for, the list ends with the last one.
func TestTheLargestLimitIsALimit(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(2, "no", `{"data": {}}`)
	code, _, stderr := r.run(false, "", "dlq", "discard", "--since", "1d", "--yes", "--rate", "1000/s")
	require.Equal(t, 0, code, stderr)
	for _, args := range [][]string{
		{"dlq", "list", "--state", "all"}, {"dlq", "list", "--state", "all", "--group-by", "type"}, {"event", "list"}, {"audit"},
	} {
		code, stdout, stderr := r.run(false, "", append(args, "--limit", strconv.Itoa(math.MaxInt), "-o", "jsonl")...)
		require.Equal(t, 0, code, "%v: %s", args, stderr)
		require.NotEmpty(t, stdout, "%v", args)
		require.Empty(t, stderr, "%v", args)
	}
}

// A table shows as much of an id as it takes, and every command takes that for the whole.
func TestShortIDsAreEnough(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(1, strings.Repeat("a long error ", 30), `{"data": {}}`)
	var out bytes.Buffer
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &bytes.Buffer{}, OutTTY: true, Width: 80}
	require.Equal(t, 0, cmd.Run(context.Background(), []string{"dlq", "list"}, streams, r.env))
	short := strings.Fields(strings.SplitAfterN(out.String(), "\n", 2)[1])[0]
	require.Less(t, len(short), 36)
	require.True(t, strings.HasPrefix(r.id(), short), "%s of %s", short, r.id())
	for _, args := range [][]string{{"dlq", "show", short}, {"why", short}, {"dlq", "discard", short, "--yes", "--note", "n"}} {
		require.Equal(t, 0, cmd.Run(context.Background(), args, cli.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, r.env), args)
	}
	require.NotContains(t, out.String(), strings.Repeat("a long error ", 4))
}

// A person is told of many changed rows in a sentence, and sees the first of those that were not changed.
// What does not fit goes column by column: the ids stay as long as it takes, and no row is wider than the terminal.
