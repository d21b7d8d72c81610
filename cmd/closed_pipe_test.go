package cmd_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A reader that goes away ends the run as Ctrl-C does: what was done is said, and how to go on.
func TestReplayIntoAClosedPipe(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(50, "no", `{"data": {}}`)
	replay := exec.Command("outboxctl", "dlq", "replay", "--since", "1d", "--yes", "--rate", "20/s", "-o", "jsonl")
	replay.Env = r.env
	var stderr bytes.Buffer
	replay.Stderr = &stderr
	reader, err := replay.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, replay.Start())
	_, err = reader.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	var exit *exec.ExitError
	require.ErrorAs(t, replay.Wait(), &exit)
	require.Equal(t, 5, exit.ExitCode(), "%s %s", exit, stderr.String())
	require.Regexp(t, `(?m)^[0-9]+ replayed in `, stderr.String())
	require.Contains(t, stderr.String(), "broken pipe")
	require.Regexp(t, `continue with: outboxctl plan run [0-9a-f-]{36} --rate 20/s`, stderr.String())
	require.Positive(t, r.count("SELECT count(*) FROM outbox_dlq WHERE state = 'open'"))
}

func TestEmitIntoAClosedPipe(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	line := fmt.Sprintf(`{"type":"media_uploaded","aggregateId":%q,"data":{}}`+"\n", uuid.NewString())
	emit := exec.Command("outboxctl", "emit", "--stdin")
	emit.Env = r.env
	emit.Stdin = strings.NewReader(line + line)
	var stderr bytes.Buffer
	emit.Stderr = &stderr
	ids, err := emit.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, ids.Close())
	require.NoError(t, emit.Start())
	var exit *exec.ExitError
	require.ErrorAs(t, emit.Wait(), &exit)
	require.Equal(t, 5, exit.ExitCode(), "%s %s", exit, stderr.String())
	require.Contains(t, stderr.String(), "all events are committed; print their ids: ")
	require.Equal(t, 2, r.count("SELECT count(*) FROM outbox_events"))
}
