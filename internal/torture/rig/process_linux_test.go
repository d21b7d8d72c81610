package rig_test

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/torture/rig"
)

func TestAStoppedProcessStandsStill(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	require.False(t, rig.StandsStill(cmd.Process.Pid))
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool { return rig.StandsStill(cmd.Process.Pid) }, time.Minute, 10*time.Millisecond)
	require.False(t, rig.StandsStill(-1), "one that is not there stands nowhere")
}
