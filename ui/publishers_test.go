package ui_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page shows who holds what, also a holder that nobody hears of.
func TestPublishersAndWhatTheyHoldAreShown(t *testing.T) {
	b := setup(t, nil)
	_, _, body := b.get("/publishers")
	require.Contains(t, body, "outboxctl publishers")
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_publishers (id, host, pid, version, last_seen_at, state)
		VALUES ('00000000-0000-7000-8000-0000000000b1', 'worker-7', 31, 'v9', now() + interval '1 hour', '{"takes": {"namespace": "shop"}}')`)
	require.NoError(t, err)
	_, err = b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_leases (owner, until, seqs) VALUES
		('00000000-0000-7000-8000-0000000000b1', now() + interval '1 hour', '{[1000000,1000042)}'),
		('00000000-0000-7000-8000-0000000000b2', now() + interval '1 hour', '{[2000000,2000001)}')`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, body = b.get("/publishers")
		return strings.Contains(body, "worker-7") && strings.Contains(body, "0000000000b2")
	}, waitFor, tick)
	require.Regexp(t, `worker-7(?s:.*?)alive(?s:.*?)v9(?s:.*?)>1<(?s:.*?)>42<(?s:.*?)namespace shop(?s:.*?)0000000000b2(?s:.*?)no heartbeat`, body)
}
