package bench

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Children count while they live and after they ended.
func TestFamilyTime(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says it")
	}
	before := familyTime(os.Getpid())
	child := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	require.NoError(t, child.Run())
	used := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	require.GreaterOrEqual(t, familyTime(os.Getpid())-before, used-2*clockTick)

	living := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	require.NoError(t, living.Start())
	ended := familyTime(os.Getpid())
	require.Eventually(t, func() bool { return familyTime(os.Getpid())-ended > 3*clockTick }, 30*time.Second, clockTick)
	require.NoError(t, living.Process.Kill())
	require.Error(t, living.Wait())
}

func TestSpentPerEvent(t *testing.T) {
	t.Parallel()
	before := Counters{database: time.Second, self: time.Second, buffers: 10, Transactions: 5, roundTrips: 7}
	after := Counters{database: 3 * time.Second, self: 2 * time.Second, buffers: 110, Transactions: 15, roundTrips: 27}
	require.Equal(t, &Spending{DatabaseMicros: 20, BenchMicros: 10, Buffers: 0.001, Transactions: 0.0001, RoundTrips: 0.0002}, spent(before, after, 0, 100_000))
	require.Equal(t, "database 20.0 µs, publishers 15.0 µs, fake 10.0 µs", spent(before, after, 1500*time.Millisecond, 100_000).String())
	before.database = 0
	require.Equal(t, "publishers and fake 10.0 µs", spent(before, after, 0, 100_000).String())
}
