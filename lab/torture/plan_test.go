package torture

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/failpoint"
)

func TestTheSeedFixesThePlan(t *testing.T) {
	t.Parallel()
	first := plan(Config{Seed: 7, Duration: 3 * time.Minute})
	require.Equal(t, first, plan(Config{Seed: 7, Duration: 3 * time.Minute}))
	require.NotEqual(t, first, plan(Config{Seed: 8, Duration: 3 * time.Minute}))
	require.GreaterOrEqual(t, len(first), 40)
	require.True(t, slices.IsSortedFunc(first, func(a, b planned) int { return int(a.at - b.at) }))
	require.Less(t, first[len(first)-1].at, 3*time.Minute)
}

// However short the run: every kind of fault, and a crash in every failpoint.
func TestEveryPlanHasEverything(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		faults := plan(Config{Seed: seed, Duration: 20 * time.Second})
		for _, kind := range []string{
			"publisher.kill", "publisher.stop", "publisher.term", "publisher.crash", "consumer.kill", "consumer.term", "consumer.crash", "operator.crash",
			"postgres.restart", "postgres.terminate", "postgres.readonly", "postgres.xmin", "postgres.lock",
			"network.reset", "network.blackhole", "network.latency", "network.cut", "redis.kill", "redis.flush", "redis.oom",
			"broker.error", "broker.lost_reply", "broker.slow", "broker.away",
		} {
			require.True(t, slices.ContainsFunc(faults, func(f planned) bool { return f.kind == kind }), "seed %d: %s", seed, kind)
		}
		for _, point := range slices.Concat(failpoint.Publisher(), failpoint.Consumer(), failpoint.Operator()) {
			require.True(t, slices.ContainsFunc(faults, func(f planned) bool { return f.detail == point }), "seed %d: %s", seed, point)
		}
	}
}

func TestAPlanCanBeNarrowed(t *testing.T) {
	t.Parallel()
	for _, f := range plan(Config{Seed: 1, Duration: time.Minute, Only: []string{"publisher.kill", "publisher.crash:" + failpoint.Settling}}) {
		require.True(t, f.kind == "publisher.kill" || f.detail == failpoint.Settling, "%+v", f)
	}
	require.Empty(t, plan(Config{Seed: 1, Duration: time.Minute, Only: []string{"none"}}))
}
