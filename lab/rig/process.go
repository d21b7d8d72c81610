package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

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
