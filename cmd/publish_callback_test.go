package cmd

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// Without Pub/Sub and without Redis: one failing event of a quiet topic is that event's failure, with the answer as its
// error, then a dead letter; nothing is said of an unreachable topic. A second event goes through, and so does the first
// when it is replayed after the service was mended.
func TestPublishToAServiceOfOnesOwn(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	var broken atomic.Bool
	broken.Store(true)
	handled := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "no door in the event", http.StatusInternalServerError)
			return
		}
		handled <- r.URL.Path
	}))
	t.Cleanup(service.Close)
	env := []string{"OUTBOXCTL_DATABASE_URL=" + db.URL, "OUTBOXCTL_BROKER=http", "OUTBOXCTL_HTTP_URL=" + service.URL + "/outbox/{event_type}",
		"OUTBOXCTL_HTTP_SECRET=canary-of-a-secret", "OUTBOXCTL_PUBLISH_HTTP_ADDR="}
	run := func(args ...string) (code int, stdout, stderr string) { return runCLI(t, env, args...) }
	code, _, stderr := run("emit", "--type", "media_uploaded", "--aggregate-id", "018f3f6e-0000-7000-8000-000000000001",
		"--data", `{"mediaId":"018f3f6e-0000-7000-8000-000000000001","storeId":"018f3f6e-0000-7000-8000-000000000002","kind":"photo"}`)
	require.Zero(t, code, stderr)
	for range 3 {
		_, _, stderr := run("publish", "--once", "--max-attempts", "3", "--backoff-base", "1ms", "--backoff-max", "1ms")
		require.NotContains(t, stderr, "unreachable")
		require.NotContains(t, stderr, "canary")
	}
	_, stdout, _ := run("dlq", "list")
	require.Contains(t, stdout, "max_attempts")
	require.Contains(t, stdout, "the service answered 500 Internal Server Error: no door in the event")

	broken.Store(false)
	code, _, stderr = run("dlq", "replay", "--reason", "max_attempts", "--yes", "--note", "mended")
	require.Zero(t, code, stderr)
	code, _, stderr = run("publish", "--once")
	require.Zero(t, code, stderr)
	require.Equal(t, "/outbox/media_uploaded", <-handled)

	// Nothing uses Redis, and nothing complains that it is not there.
	code, stdout, stderr = run("doctor")
	require.Zero(t, code, stdout+stderr)
	require.NotContains(t, stdout, "http\ttopics\twarn")
	_, stdout, _ = run("config", "view")
	require.NotContains(t, stdout, "canary")
	require.Contains(t, stdout, "(hidden)")
}

// A service that says when it wants an event again gets it not before.
func TestPublishKeepsRetryAfter(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1800")
		http.Error(w, "closed for today", http.StatusInternalServerError)
	}))
	t.Cleanup(service.Close)
	env := []string{"OUTBOXCTL_DATABASE_URL=" + db.URL, "OUTBOXCTL_PUBLISH_HTTP_ADDR="}
	code, _, stderr := runCLI(t, env, "emit", "--type", "media_uploaded", "--aggregate-id", "018f3f6e-0000-7000-8000-000000000001",
		"--data", `{"mediaId":"018f3f6e-0000-7000-8000-000000000001","storeId":"018f3f6e-0000-7000-8000-000000000002","kind":"photo"}`)
	require.Zero(t, code, stderr)
	_, _, stderr = runCLI(t, env, "publish", "--once", "--http", service.URL, "--backoff-base", "1ms", "--backoff-max", "1ms")
	require.Contains(t, stderr, "closed for today")
	var attempts int
	var later bool
	require.NoError(t, db.Pool.QueryRow(t.Context(),
		`SELECT attempt_count, next_attempt_at > now() + interval '20 min' FROM outbox_events`).Scan(&attempts, &later))
	require.Equal(t, 1, attempts)
	require.True(t, later)
}
