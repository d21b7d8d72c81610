package cmd

import (
	"bytes"
	"context"
	"encoding/json"
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
	require.Equal(t, 1, storedEvents(t, db))
}

func TestEmitStreamIsPrintedInOrder(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	code, out, stderr := emitStdin(t, db.URL, "\ufeff"+strings.Repeat(jsonLine("{}")+"\r\n", 1_200), "-o", "json")
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

func TestEmitInterrupted(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	ctx, interrupt := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	var out, stderr bytes.Buffer
	done := make(chan int)
	go func() {
		done <- Run(ctx, []string{"emit", "--stdin"}, cli.Streams{In: in, Out: &out, Err: &stderr}, []string{"DATABASE_URL=" + db.URL})
	}()
	_, err := io.WriteString(feed, strings.Repeat(jsonLine("{}"), 1_000))
	require.NoError(t, err)
	interrupt()
	<-done
	require.NoError(t, feed.Close())
	require.Zero(t, storedEvents(t, db))
	require.Empty(t, out.String())
	require.Contains(t, stderr.String(), "interrupted: nothing written\n")
}
