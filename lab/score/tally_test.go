package score

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) {
	// Started when the Pub/Sub client is linked in, and never stopped.
	outboxtest.Main(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// A scoreboard that cannot see a loss would show none.
func TestTheTallySeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	w := &world{pool: db.Pool, ledger: newLedger()}
	ids := emitMany(t.Context(), w.pool, 6, 0)
	published, unmarked, lost, dead, doubled, early := ids[0], ids[1], ids[2], ids[3], ids[4], ids[5]
	for i, id := range []string{published, unmarked, doubled, doubled, early, doubled, "018f0000-0000-7000-8000-000000000000"} {
		w.ledger.store(id, time.Unix(int64(i+1), 0))
	}
	_, err := w.pool.Exec(t.Context(), `UPDATE outbox_events SET published_at = now() WHERE id::text = ANY ($1)`, []string{published, doubled, early})
	require.NoError(t, err)
	_, err = w.pool.Exec(t.Context(), `UPDATE outbox_events SET dead_at = now() WHERE id::text = $1`, dead)
	require.NoError(t, err)

	got := w.tally(t.Context())
	require.Equal(t, tally{events: 6, lost: 2, unknown: 1, duplicates: 2, dead: 1}, got, "lost: %s and %s", lost, unmarked)
	require.False(t, got.exact())

	waits := w.waits([]committed{{id: published, at: time.Unix(0, 0)}, {id: early, at: time.Unix(6, 0)}, {id: lost}}, func(committed) bool { return true })
	require.Equal(t, spread{p50: time.Second, p99: time.Second, max: time.Second, n: 2}, waits, "who is faster than its producer took no time")
}

func TestAWrongFigureIsNeverMerelyShort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		correct, inTime bool
		want            Verdict
	}{{true, true, Met}, {true, false, Short}, {false, true, Violated}, {false, false, Violated}} {
		require.Equal(t, c.want, judge(c.correct, c.inTime, "").verdict)
	}
}

func TestEveryRowOfTheTableIsThereOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	last := 0
	for _, e := range entries() {
		require.False(t, seen[e.name], e.name)
		require.Greater(t, number(e.name), last)
		seen[e.name], last = true, number(e.name)
	}
	require.Len(t, seen, 19, "R1 to R26, without those that are retired")
}
