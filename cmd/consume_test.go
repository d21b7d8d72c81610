package cmd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// eventWorld is a stack of real servers with topics, and the environment that points at it.
type eventWorld struct {
	t   *testing.T
	db  *outboxtest.Database
	rdb *outboxtest.RedisDB
	env []string
}

func newEventWorld(t *testing.T) *eventWorld {
	t.Helper()
	fake := outboxtest.PubSub(t)
	w := &eventWorld{t: t, db: outboxtest.DB(t), rdb: outboxtest.Redis(t)}
	w.env = []string{
		"DATABASE_URL=" + w.db.URL, "REDIS_URL=" + w.rdb.URL, "PUBSUB_EMULATOR_HOST=" + fake.Addr(),
		"GOOGLE_CLOUD_PROJECT=" + fake.Project, "OUTBOXCTL_ACTOR=tester",
	}
	return w
}

// ok runs a command that must succeed and returns its output.
func (w *eventWorld) ok(args ...string) string {
	w.t.Helper()
	code, out, stderr := runCLI(w.t, w.env, args...)
	require.Equal(w.t, cli.ExitOK, code, "%v: %s", args, stderr)
	return out
}

// fails runs a command that must end with code and returns what it said.
func (w *eventWorld) fails(code int, args ...string) string {
	w.t.Helper()
	got, out, stderr := runCLI(w.t, w.env, args...)
	require.Equal(w.t, code, got, "%v: %s%s", args, out, stderr)
	return out + stderr
}

func (w *eventWorld) Count(query string, args ...any) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.db.Pool.QueryRow(w.t.Context(), query, args...).Scan(&n))
	return n
}

func (w *eventWorld) show(id string) (row idem.Mark) {
	w.t.Helper()
	var rows []idem.Mark
	require.NoError(w.t, json.Unmarshal([]byte(w.ok("consumer", "show", id, "--consumer", "compliance", "-o", "json")), &rows))
	require.Len(w.t, rows, 1)
	return rows[0]
}

// An event goes from emit to notification, is known to Redis and inbox, and is forgotten on request.
func TestAnEventIsConsumedShownAndForgotten(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	require.Contains(t, w.fails(cli.ExitNotFound, "consume", "--example"), "outboxctl topic ensure")
	w.ok("topic", "ensure")
	id := strings.TrimSpace(w.ok("emit", "--type", "license_status_changed", "--aggregate-id", uuid.NewString(),
		"--data", `{"licenseId":"`+uuid.NewString()+`","storeId":"`+uuid.NewString()+`","status":"rejected","reason":"expired"}`))
	w.ok("publish", "--once")
	w.ok("consume", "--example", "--count", "1", "--http-addr", "127.0.0.1:0")
	require.Equal(t, 1, w.Count(`SELECT count(*) FROM notifications WHERE event_id = $1 AND audience = 'store' AND reason = 'expired'`, id))

	row := w.show(id)
	require.Equal(t, "compliance", row.Consumer)
	require.Equal(t, "processed", row.State)
	require.Equal(t, "pf:evt:processed:compliance:"+id, row.Key)
	require.NotNil(t, row.InboxAt)
	require.NotNil(t, row.ExpiresAt)

	forget := []string{"consumer", "forget", id, "--consumer", "compliance"}
	require.Contains(t, w.fails(cli.ExitUsage, forget...), "--note")
	require.Contains(t, w.fails(cli.ExitUsage, "consumer", "forget", id, "--note", "x"), "--consumer")
	require.Contains(t, w.fails(cli.ExitRefused, append(forget, "--note", "TICKET-7")...), "--yes")
	w.ok(append(forget, "--dry-run")...)
	require.Equal(t, "processed", w.show(id).State, "neither a refusal nor a dry run forgets")
	require.Zero(t, w.Count(`SELECT count(*) FROM outbox_audit WHERE action LIKE 'consumer.%'`))

	w.ok(append(forget, "--note", "TICKET-7", "--yes")...)
	require.Equal(t, "unknown", w.show(id).State)
	require.NotNil(t, w.show(id).InboxAt, "the inbox row stays unless asked for")
	require.Equal(t, 1, w.Count(`SELECT count(*) FROM outbox_audit WHERE action = 'consumer.forget' AND actor = 'tester' AND note = 'TICKET-7'
		AND detail->'eventIds' = jsonb_build_array($1::text) AND detail->>'consumer' = 'compliance' AND detail->>'state' = 'processed'`, id))

	require.Contains(t, w.fails(cli.ExitNotFound, append(forget, "--note", "again", "--yes")...), "--inbox")
	w.ok(append(forget, "--note", "again", "--inbox", "--yes")...)
	require.Nil(t, w.show(id).InboxAt)
	story := w.ok("event", "show", id)
	require.Contains(t, story, "forgotten by compliance by tester: TICKET-7")
	require.Contains(t, story, "forgotten by compliance, inbox row included by tester: again")
	require.Contains(t, w.ok("audit", "--event", id), "consumer.forget")
	w.fails(cli.ExitNotFound, append(forget, "--note", "once more", "--inbox", "--yes")...)
}

// An id may be a dead letter's: what consumers know is kept by the event's. Where only Redis can be asked, it is taken
// for the event's.
func TestADeadLettersIDLeadsToWhatConsumersKnow(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	event, letter := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
		VALUES ($1, $2, 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'max_attempts', 'no', 10)`, letter, event)
	require.NoError(t, err)
	guard, err := consume.New(w.rdb.Client, "compliance", consume.Options{})
	require.NoError(t, err)
	_, err = guard.CheckAndMarkProcessed(t.Context(), event, consume.DefaultTTL)
	require.NoError(t, err)

	require.Equal(t, event.String(), w.show(letter.String()).EventID)
	require.Equal(t, "processed", w.show(letter.String()).State)
	w.ok("consumer", "forget", letter.String(), "--consumer", "compliance", "--note", "x", "--yes")
	require.Equal(t, "unknown", w.show(event.String()).State)
	require.Equal(t, 1, w.Count(`SELECT count(*) FROM outbox_audit WHERE detail->'eventIds' = jsonb_build_array($1::text)`, event))

	w.env = append(w.env, "DATABASE_URL=postgres://nobody@127.0.0.1:1/x")
	require.Equal(t, letter.String(), w.show(letter.String()).EventID)
}

func TestForgetLeavesARunningHandlerAlone(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	id := uuid.Must(uuid.NewV7())
	require.NoError(t, w.rdb.Client.Set(t.Context(), consume.Key("compliance", id), "processing:token:1:worker/7", time.Minute).Err())

	forget := []string{"consumer", "forget", id.String(), "--consumer", "compliance", "--note", "x", "--yes"}
	require.Contains(t, w.fails(cli.ExitPrecondition, forget...), "worker/7")
	require.Zero(t, w.Count(`SELECT count(*) FROM outbox_audit`))
	w.ok(append(forget, "--force")...)
	require.Equal(t, "unknown", w.show(id.String()).State)
}

// Two consumers with subscriptions of their own get the same events, one over HTTP and one as processes. Both are asked
// again when they say so, and neither gets what it has had.
func TestConsumeHandsEventsToAWorker(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	w.ok("topic", "ensure")
	w.ok("topic", "ensure", "--subscription", "audit-sub")
	emit := func(eventType, data string) string {
		return strings.TrimSpace(w.ok("emit", "--type", eventType, "--aggregate-id", uuid.NewString(), "--data", data))
	}
	wanted := []string{emit("license_status_changed", "{}"), emit("license_status_changed", "{}")}
	other := emit("order_created", "{}")
	w.ok("publish", "--once")

	var mu sync.Mutex
	posted := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Idempotency-Key")
		if posted[id]++; posted[id] == 1 {
			rw.Header().Set("Retry-After", "0")
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	untilDone(t, func() {
		w.ok("consume", "--consumer", "mailer", "--http", server.URL, "--type", "license_status_changed", "--count", "3", "--idle-exit", "30s", "--http-addr", "127.0.0.1:0")
	}, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return posted[wanted[0]] > 1 && posted[wanted[1]] > 1
	})
	require.Equal(t, map[string]int{wanted[0]: 2, wanted[1]: 2}, posted)

	file := filepath.Join(t.TempDir(), "seen")
	w.ok("consume", "--consumer", "audit", "--subscription", "audit-sub", "--exec", `echo "$OUTBOX_EVENT_ID $(wc -c)" >> '`+file+`'`, "--count", "3", "--idle-exit", "30s", "--http-addr", "127.0.0.1:0")
	seen, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(seen)), "\n")
	require.Len(t, lines, 3)
	for _, id := range append(wanted, other) {
		require.Equal(t, 1, strings.Count(string(seen), id))
	}
}

func TestConsumeRefusals(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	for _, refused := range []struct {
		said string
		args []string
	}{
		{"outboxctl consume --example runs the example", nil},
		{"one of --http, --exec and --example", []string{"--http", "http://x/", "--exec", "true", "--consumer", "c"}},
		{"needs --consumer", []string{"--exec", "true"}},
		{"--http: want an URL", []string{"--http", "x:secret@/", "--consumer", "c"}},
		{"--type is for --http", []string{"--example", "--type", "order.ready"}},
	} {
		said := w.fails(cli.ExitUsage, append([]string{"consume"}, refused.args...)...)
		require.Contains(t, said, refused.said)
		require.NotContains(t, said, "secret")
	}
	said := w.fails(cli.ExitUsage, "consume", "--example", "--concurrency", "-1", "--consumer", "a:b", "--streams", "-1")
	for _, problem := range []string{"concurrency", "consumer name", "streams"} {
		require.Contains(t, said, problem)
	}
	require.Contains(t, w.fails(cli.ExitUsage, "consume", "--example", "--streams", "5000"), "streams 5000 is not between 0 and 1000")
	said = w.fails(cli.ExitUsage, "consume", "--example", "--consumer", "", "--concurrency", "0", "--count", "-1")
	require.Contains(t, said, "consumer name is empty; concurrency 0 is not between 1 and 10000; count -1")
	w.fails(cli.ExitUsage, "consume", "--example", "--idle-exit", "-1s")
	w.fails(cli.ExitUsage, "consumer", "show", "not-a-uuid")
	w.fails(cli.ExitUsage, "consumer", "show", uuid.NewString(), "--consumer", "a:b")
	w.env = append(w.env, "REDIS_URL=redis://127.0.0.1:1/0")
	w.fails(cli.ExitPrecondition, "consumer", "show", uuid.NewString())
}
