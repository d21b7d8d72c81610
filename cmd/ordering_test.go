package cmd_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/cmd"
)

// must runs a command that must succeed and returns what it has said.
func (r *publishRig) must(args ...string) string {
	r.t.Helper()
	code, out, talk := cmd.RunText(r.t.Context(), append(r.env(), "OUTBOXCTL_REDIS_URL=redis://127.0.0.1:1/0"), "", args...)
	require.Zero(r.t, code, out+talk)
	return out + talk
}

// An operator's story: the head of a key dies, the others park, why names it, and after its replay all leave in order.
func TestADeadHeadParksItsKeyUntilItIsReplayed(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	license := uuid.NewString()
	data := `{"licenseId":"` + license + `","storeId":"` + uuid.NewString() + `","status":"verified"}`
	var ids []string
	for range 3 {
		out := r.must("emit", "--type", "license_status_changed", "--aggregate-id", license, "--data", data, "--ordered")
		ids = append(ids, strings.TrimSpace(out))
	}
	other := strings.TrimSpace(r.must("emit", "--type", "license_status_changed", "--aggregate-id", license, "--data", data, "--ordering-key", "other"))
	var refusing atomic.Bool
	refusing.Store(true)
	r.pubsub.RejectMessages(func(_ string, m *pubsubpb.PubsubMessage) bool {
		return refusing.Load() && m.GetAttributes()["event_id"] == ids[0]
	})

	p := r.start("--once", "--max-attempts", "1")
	require.Equal(t, 5, p.wait())
	require.Contains(t, p.output(), "events wait behind a dead one of their ordering key")
	require.Equal(t, []string{other}, r.storedInOrder())
	require.Contains(t, r.must("why", ids[2]), "2 ahead; the first, "+ids[0]+", died")
	require.Contains(t, r.must("stats"), "2 events wait behind the dead events of 1 ordering key")
	require.Contains(t, r.must("dlq", "list", "--blocking", "-o", "wide"), "default/domain/license/"+license+"\t2\n")
	require.Contains(t, r.must("dlq", "show", ids[0]), "2 events of its key that wait for it")
	require.Contains(t, r.must("dlq", "discard", ids[0], "--dry-run"), "2 events behind them in their ordering keys are released")

	refusing.Store(false)
	r.must("dlq", "replay", ids[0], "--yes", "--note", "the broker takes it now")
	require.Zero(t, r.start("--once").wait())
	require.Equal(t, append([]string{other}, ids...), r.storedInOrder())
	for _, m := range r.pubsub.Stored()[1:] {
		require.Equal(t, "default/domain/license/"+license, m.OrderingKey)
	}
}

// storedInOrder lists the events that the broker has, in the order in which they came.
func (r *publishRig) storedInOrder() (ids []string) {
	for _, m := range r.pubsub.Stored() {
		ids = append(ids, m.Attributes["event_id"])
	}
	return ids
}
