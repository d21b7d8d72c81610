package cmd_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// contextsFile writes a configuration with a context for each database, on one broker.
func (r *publishRig) contextsFile(urls map[string]string) (path string) {
	r.t.Helper()
	var b strings.Builder
	b.WriteString("contexts:\n")
	for name, url := range urls {
		fmt.Fprintf(&b, "  %s: {database: {url: %q}, pubsub: {project: %s, emulator: %q}}\n", name, url, r.pubsub.Project, r.pubsub.Addr())
	}
	path = filepath.Join(r.t.TempDir(), "outboxctl.yaml")
	require.NoError(r.t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// Two databases are published while a third is away and a fourth has no tables, each with metrics of its own. What comes is
// published without a restart.
func TestOneProcessPublishesSeveralDatabases(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	second := &publishRig{t: t, db: outboxtest.DB(t), pubsub: r.pubsub}
	empty := &publishRig{t: t, db: outboxtest.EmptyDB(t), pubsub: r.pubsub}
	var lc net.ListenConfig
	away, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, away.Close())
	file := r.contextsFile(map[string]string{
		"one": r.db.URL, "two": second.db.URL, "empty": empty.db.URL, "away": "postgres://x:secret@" + away.Addr().String() + "/x",
	})
	r.emit(20, "order_created")
	second.emit(30, "order_created")

	p := r.start("--config", file, "--context", "one,two,empty,away")
	r.settled(20)
	second.settled(30)
	var answer struct {
		Status string
		Failed map[string]string
	}
	readyz := func() int {
		code, body := p.get("/readyz")
		answer.Failed = nil
		require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
		return code
	}
	eventually(t, "the two that do not work are named", func() bool {
		return readyz() == 200 && answer.Status == "degraded" && len(answer.Failed) == 2 &&
			strings.Contains(answer.Failed["empty: start"], "outbox_events") && strings.Contains(answer.Failed["away: start"], "refused")
	})
	code, _ := p.get("/healthz")
	require.Equal(t, 200, code)
	_, metrics := p.get("/metrics")
	require.Contains(t, metrics, `outbox_published_total{context="one",topic="domain"} 20`)
	require.Contains(t, metrics, `outbox_published_total{context="two",topic="domain"} 30`)
	require.Contains(t, metrics, `outbox_context_up{context="away"} 0`)
	require.Contains(t, metrics, `outbox_context_up{context="two"} 1`)
	require.NotContains(t, p.output(), "secret")

	_, err = migrate.Up(t.Context(), empty.db.Pool, migrate.Options{})
	require.NoError(t, err)
	empty.emit(10, "order_created")
	empty.settled(10)
	eventually(t, "only one is away", func() bool { return readyz() == 200 && len(answer.Failed) == 1 })
	require.Len(t, r.stored(), 60)

	p.end()
	for db, published := range map[*publishRig]int{r: 20, second: 30, empty: 10} {
		require.Zero(t, db.count(`SELECT count(*) FROM outbox_leases`))
		require.Equal(t, published, db.count(`SELECT sum(figures[2]) FROM outbox_history WHERE topic = '' AND event_type = ''`), "a history for each database")
	}
}

// With --once each context is drained, and the worst exit code is the command's.
func TestOnceInSeveralContexts(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	second := &publishRig{t: t, db: outboxtest.DB(t), pubsub: r.pubsub}
	file := r.contextsFile(map[string]string{"one": r.db.URL, "two": second.db.URL, "empty": outboxtest.EmptyDB(t).URL})
	r.emit(5, "order_created")
	second.emit(5, "order_created")
	p := r.start("--config", file, "--context", "one,two", "--once")
	require.Zero(t, p.wait())
	require.Equal(t, 5, r.published())
	require.Equal(t, 5, second.published())

	second.emit(5, "order_created")
	p = r.start("--config", file, "--context", "all", "--once")
	require.Equal(t, 4, p.wait())
	require.Contains(t, p.output(), "error: context empty: ")
	require.Equal(t, 10, second.published())

	p = r.start("--config", file, "--context", "one,nowhere")
	require.Equal(t, 2, p.wait())
	require.Contains(t, p.output(), "context nowhere: ")
}
