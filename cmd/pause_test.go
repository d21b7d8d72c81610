package cmd_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// do runs another command beside the publishers, which must succeed.
func (r *publishRig) do(line string) (stdout string) {
	r.t.Helper()
	code, stdout, stderr := r.run(strings.Fields(line)...)
	require.Zero(r.t, code, stderr)
	return stdout
}

// A running publisher leaves alone what is paused and takes it up again; one that is started meanwhile says so.
func TestPublishersObeyAPause(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	p := r.start()
	r.emit(1, "payment_settled")
	r.settled(1)
	r.do("pause --topic billing --yes --note migration")
	eventually(t, "the pause is obeyed", func() bool { return len(p.said("paused")) > 0 })
	r.emit(3, "payment_settled")
	r.emit(5, "order_created")
	r.settled(6)
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_events WHERE attempt_count > 0`))
	stdout := r.do(`pause list --jq .[]|{kind,value,events,note}`)
	require.JSONEq(t, `{"kind": "topic", "value": "billing", "events": 3, "note": "migration"}`, stdout)
	stdout = r.do("stats")
	require.Contains(t, stdout, "paused      topic billing by ")
	require.Contains(t, stdout, "until resumed, 3 events wait: migration")

	once := r.start("--once")
	require.Zero(t, once.wait())
	require.Contains(t, once.output(), "paused, and left alone: outboxctl resume ends it")
	require.Equal(t, 6, r.published())

	r.do("resume --topic billing --yes")
	r.settled(9)
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_events WHERE attempt_count > 0`))
}
