package cmd

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A dry run may be long too, but its progress does not claim that anything was done.
func TestTheProgressOfADryRunClaimsNothing(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at)
		VALUES (outbox_uuid_v7(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', now() - interval '1 hour')`)
	require.NoError(t, err)
	for _, tc := range [][2]string{{"--dry-run", "looked at: 1 of 1"}, {"--yes", "republished: 1 of 1"}} {
		var stderr bytes.Buffer
		app := cli.NewApp(cli.Streams{Out: &bytes.Buffer{}, Err: &stderr}, []string{"DATABASE_URL=" + db.URL})
		now := time.Now()
		app.Now = func() time.Time { now = now.Add(cli.ProgressEvery); return now }
		root := newRootCmd(app)
		root.SetArgs([]string{"event", "republish", "--type", "order_canceled", tc[0]})
		require.NoError(t, root.ExecuteContext(t.Context()))
		require.NoError(t, app.Close())
		require.Contains(t, stderr.String(), tc[1])
	}
}

// Two runs over the same set say the same.
func TestWhatIsLeftOutIsNamedInOneOrder(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	opts := &changeOptions{app: cli.NewApp(cli.Streams{Err: &stderr}, nil)}
	for range 50 {
		stderr.Reset()
		opts.sayLeftOut(dlq.Plan{Action: dlq.Replay, LeftOut: map[string]int64{dlq.NotFound: 1, dlq.EventLive: 2, dlq.AlreadyReplayed: 3, dlq.Changed: 4}})
		require.Equal(t, "left out: 3 dead letters (already replayed)\nleft out: 4 dead letters (changed since)\n"+
			"left out: 2 dead letters (already on the way)\nleft out: 1 dead letter (not found)\n", stderr.String())
	}
}
