package rig

import (
	"context"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// Child is a program that was started and does not outlive the harness.
type Child struct {
	cmd *exec.Cmd
	// Done is closed when it has ended.
	Done chan struct{}
}

// Start starts a program in a process group of its own: a Ctrl-C at the terminal is the harness's
// to deal with.
func Start(cmd *exec.Cmd) (*Child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	c := &Child{cmd: cmd, Done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ties a child's death signal to the thread that forked it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its state
			close(c.Done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// PID is the process's id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Signal sends a signal to a process that may have ended.
func (c *Child) Signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) }

// StandsStill reports whether a signal has stopped it.
func (c *Child) StandsStill() bool { return standsStill(c.PID()) }

// Alive reports whether it has not ended yet.
func (c *Child) Alive() bool {
	select {
	case <-c.Done:
		return false
	default:
		return true
	}
}

// Succeeded reports whether a program that is done ended without an error.
func (c *Child) Succeeded() bool { return c.cmd.ProcessState.Success() }

// Killed reports whether a program that is done died of SIGKILL.
func (c *Child) Killed() bool {
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Exit describes how a program that is done has ended.
func (c *Child) Exit() string {
	if c.Killed() {
		return "killed"
	}
	return c.cmd.ProcessState.String()
}

// Pause waits for d and reports whether ctx let it.
func Pause(ctx context.Context, d time.Duration) bool { return wait.For(ctx, d) == nil }
