package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
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

// Processor is the processor time that a program took that is done.
func (c *Child) Processor() time.Duration {
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
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

// Process is a running program with a log of its own.
type Process struct {
	*Child
	Name string
	log  string
}

// Start runs a program until it ends or the world does.
func (w *World) Start(name string, env []string, program string, args ...string) *Process {
	w.started++
	p := &Process{Name: name, log: filepath.Join(w.Dir, fmt.Sprintf("%s-%d.log", name, w.started))}
	log := Must(os.Create(p.log))
	defer func() { _ = log.Close() }() // the program has it
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	p.Child = Must(Start(cmd))
	w.OnClose(func() error {
		p.Signal(syscall.SIGKILL) // it has usually ended
		<-p.Done
		return nil
	})
	return p
}

// End signals the process and waits for its end.
func (p *Process) End(ctx context.Context, sig syscall.Signal) {
	p.Signal(sig)
	p.Wait(ctx, time.Minute)
}

// Wait waits for its end.
func (p *Process) Wait(ctx context.Context, limit time.Duration) {
	if err := Within(ctx, p.Done, limit); err != nil {
		Check(fmt.Errorf("%s does not end: %w", p.Name, err))
	}
}

// Log is what the process has said so far.
func (p *Process) Log() []byte {
	log, _ := os.ReadFile(p.log) // there while the world is
	return log
}

// Said counts how often a text is in the process's log.
func (p *Process) Said(text string) int { return bytes.Count(p.Log(), []byte(text)) }

// Ran is what became of a command.
type Ran struct {
	Exit           int // -1 when a signal ended it
	Stdout, Stderr string
}

// Command runs a program to its end.
func Command(ctx context.Context, env []string, stdin, program string, args ...string) (r Ran) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exited *exec.ExitError
	switch {
	case errors.As(err, &exited):
		r.Exit = exited.ExitCode()
	case err != nil:
		r.Exit = 1
		stderr.WriteString(err.Error())
	}
	r.Stdout, r.Stderr = stdout.String(), stderr.String()
	return r
}

// ErrTimedOut is the error of a wait that was in vain.
var ErrTimedOut = errors.New("it does not come true in time")

// Within waits for a channel to close, for a while.
func Within(ctx context.Context, done <-chan struct{}, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ErrTimedOut
	}
}

// Eventually asks until something holds.
func Eventually(ctx context.Context, patience time.Duration, holds func() bool) error {
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			return ErrTimedOut
		}
		if !Pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// Await is Eventually as a step: what says what was waited for.
func Await(ctx context.Context, patience time.Duration, what string, holds func() bool) {
	if err := Eventually(ctx, patience, holds); err != nil {
		Check(fmt.Errorf("wait for %s: %w", what, err))
	}
}
