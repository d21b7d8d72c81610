package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

const emitTestID = "018f3f6e-0000-7000-8000-00000000000a"

func jsonLine(data string) string {
	return `{"type":"media_uploaded","aggregateId":"` + emitTestID + `","data":` + data + "}\n"
}

// emitStdin runs emit --stdin on a text.
func emitStdin(t *testing.T, url, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = Run(t.Context(), append([]string{"emit", "--stdin"}, args...),
		cli.Streams{In: strings.NewReader(input), Out: &out, Err: &errOut}, []string{"DATABASE_URL=" + url})
	return code, out.String(), errOut.String()
}

func storedEvents(t *testing.T, db *outboxtest.Database) int {
	t.Helper()
	var n int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events`).Scan(&n))
	return n
}

func TestEmitExitCodes(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	one := []string{"emit", "--type", "media_uploaded", "--aggregate-id", emitTestID, "--database-url", db.URL}
	for _, c := range []struct {
		name string
		args []string
		want int
	}{
		{"a good event", append(one, "--data", "{}"), cli.ExitOK},
		{"a bad payload", append(one, "--data", `{"x":1}`), cli.ExitUsage},
		{"no payload", one, cli.ExitUsage},
		{"a missing file", append(one, "--data", "@/no/such/file"), cli.ExitUsage},
		{"a bad flag value", append(one, "--data", "{}", "--tenant", "x"), cli.ExitUsage},
		{"an unreachable database", append(one[:5:5], "--data", "{}", "--database-url", "postgres://127.0.0.1:1/x"), cli.ExitPrecondition},
		{"a database without outbox", append(one[:5:5], "--data", "{}", "--database-url", outboxtest.EmptyDB(t).URL), cli.ExitPrecondition},
	} {
		code, _, stderr := runCLI(t, nil, c.args...)
		require.Equal(t, c.want, code, "%s: %s", c.name, stderr)
	}
	require.Equal(t, 1, storedEvents(t, db))

	good, bad := jsonLine("{}"), jsonLine("null")
	code, _, _ := emitStdin(t, db.URL, good+bad)
	require.Equal(t, cli.ExitUsage, code, "nothing was written")
	code, _, _ = emitStdin(t, db.URL, good+bad, "--tx-size", "1")
	require.Equal(t, cli.ExitPartial, code, "one transaction was")
	require.Equal(t, 2, storedEvents(t, db))
}

// Which lines are written depends on the lines alone, whatever the batches.
func TestEmitStreamBoundaries(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	lines := strings.Repeat(jsonLine("{}"), emitBatchEvents+50)
	for _, c := range []struct{ size, want int }{
		{1, emitBatchEvents + 50}, {7, (emitBatchEvents + 50) / 7 * 7}, {emitBatchEvents + 20, emitBatchEvents + 20}, {emitBatchEvents + 51, 0},
	} {
		before := storedEvents(t, db)
		_, out, stderr := emitStdin(t, db.URL, lines+"{}\n"+lines, "--tx-size", fmt.Sprint(c.size))
		require.Contains(t, stderr, fmt.Sprintf("error: line %d: ", emitBatchEvents+51))
		require.Equal(t, c.want, storedEvents(t, db)-before, "--tx-size %d", c.size)
		require.Equal(t, c.want, strings.Count(out, "\n"), "printed is what is committed")
	}
}

func TestEmitStreamIsPrintedInOrder(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	code, out, stderr := emitStdin(t, db.URL, "\ufeff"+strings.Repeat(jsonLine("{}")+"\r\n", 1_200), "--tx-size", "500", "-o", "json")
	require.Equal(t, cli.ExitOK, code, stderr)
	var printed []struct {
		ID   uuid.UUID
		Line int
	}
	require.NoError(t, json.Unmarshal([]byte(out), &printed))
	require.Len(t, printed, 1_200)
	rows, err := db.Pool.Query(t.Context(), `SELECT id FROM outbox_events ORDER BY seq`)
	require.NoError(t, err)
	defer rows.Close()
	for i := 0; rows.Next(); i++ {
		var id uuid.UUID
		require.NoError(t, rows.Scan(&id))
		require.Equal(t, id, printed[i].ID)
		require.Equal(t, 2*i+1, printed[i].Line, "blank lines count")
	}
	require.NoError(t, rows.Err())
}

func TestEmitTakesLongLines(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	line := func(letter string, n int) string {
		return `{"type":"ad_paused","aggregateId":"` + emitTestID + `","data":{"adId":"` + emitTestID + `","storeId":"` + emitTestID +
			`","at":"2026-03-04T05:06:07Z","changes":["` + strings.Repeat(letter, n) + `"]}}` + "\n"
	}
	// Sixty megabytes of escapes are ten of text.
	code, _, stderr := emitStdin(t, db.URL, jsonLine("{}")+line(`\u0041`, 9_900_000)+jsonLine("{}"))
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 3, storedEvents(t, db))

	code, _, stderr = emitStdin(t, db.URL, line("A", 10_000_000))
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "error: line 1: invalid event: data is too large: a message of 1000")

	// Atomic: reading that much may take longer than the silence after which a feed is committed.
	code, _, stderr = emitStdin(t, db.URL, jsonLine("{}")+strings.Repeat(" ", maxEmitLine+1), "--atomic")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "error: line 2: longer than")
}

// A feed that falls silent is committed: its events must not wait, and its
// transaction must not stay open.
func TestEmitCommitsWhenTheFeedFallsSilent(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	in, feed := io.Pipe()
	ids, out := io.Pipe()
	done := make(chan int)
	go func() {
		done <- Run(t.Context(), []string{"emit", "--stdin"}, cli.Streams{In: in, Out: out, Err: io.Discard}, []string{"DATABASE_URL=" + db.URL})
	}()
	printed := bufio.NewScanner(ids)
	for n := 1; n <= 2; n++ {
		_, err := io.WriteString(feed, jsonLine("{}"))
		require.NoError(t, err)
		require.True(t, printed.Scan(), "an id although the feed is still open")
		require.Equal(t, n, storedEvents(t, db))
	}
	require.NoError(t, feed.Close())
	require.Equal(t, cli.ExitOK, <-done)
}

func TestEmitInterrupted(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ctx, interrupt := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	ids, out := io.Pipe()
	var stderr bytes.Buffer
	done := make(chan int)
	go func() {
		done <- Run(ctx, []string{"emit", "--stdin", "--tx-size", "2"}, cli.Streams{In: in, Out: out, Err: &stderr}, []string{"DATABASE_URL=" + db.URL})
	}()
	_, err := io.WriteString(feed, strings.Repeat(jsonLine("{}"), 3))
	require.NoError(t, err)
	printed := bufio.NewScanner(ids)
	for range 2 {
		require.True(t, printed.Scan(), "an id of the first transaction")
	}
	interrupt()
	<-done
	require.NoError(t, feed.Close())
	require.Equal(t, 2, storedEvents(t, db))
	require.Contains(t, stderr.String(), "interrupted: 2 events of lines 1 to 2 are committed, nothing after line 2 is; to go on: tail -n +3\n")
}
