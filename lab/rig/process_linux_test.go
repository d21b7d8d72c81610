package rig_test

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/lab/rig"
)

func TestChildStandsStillAndIsKilled(t *testing.T) {
	t.Parallel()
	c, err := rig.Start(exec.CommandContext(t.Context(), "sleep", "600"))
	require.NoError(t, err)
	require.True(t, c.Alive())
	require.False(t, c.StandsStill())
	c.Signal(syscall.SIGSTOP)
	require.Eventually(t, c.StandsStill, time.Minute, 10*time.Millisecond)
	c.Signal(syscall.SIGKILL)
	<-c.Done
	require.False(t, c.Alive())
	require.False(t, c.StandsStill(), "one that is not there stands nowhere")
	require.True(t, c.Killed())
	require.False(t, c.Succeeded())
	require.Equal(t, "killed", c.Exit())
}

func TestChildThatEndsByItself(t *testing.T) {
	t.Parallel()
	for program, exit := range map[string]string{"true": "exit status 0", "false": "exit status 1"} {
		c, err := rig.Start(exec.CommandContext(t.Context(), program))
		require.NoError(t, err)
		<-c.Done
		require.Equal(t, program == "true", c.Succeeded())
		require.False(t, c.Killed())
		require.Equal(t, exit, c.Exit())
	}
	_, err := rig.Start(exec.CommandContext(t.Context(), "/no/such/program"))
	require.Error(t, err)
}
