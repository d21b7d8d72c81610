package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// childSpec describes one server process.
type childSpec struct {
	path   string
	args   []string
	dir    string
	env    []string // beside what every server gets
	owner  *owner   // nil: run as ourselves
	output *os.File
	// orphanSignal is what the process gets when we die without stopping it. Linux only.
	orphanSignal syscall.Signal
}

// child is a started process. It is waited for by the goroutine that started it.
type child struct {
	process *os.Process
	done    chan struct{} // closed once the process has been waited for
	err     error         // how it ended; read only after done
}

// startLogged runs a server that writes to a log file, until ready reports that it answers. One
// that does not is ended, with what its log says.
func startLogged(
	ctx context.Context, spec childSpec, logPath string, ready func(*child) bool, failed ...endStep,
) (*child, error) {
	log, err := openLog(logPath)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor
	spec.output = log
	c, err := startChild(spec)
	if err != nil {
		return nil, err
	}
	if err := c.until(ctx, ready); err != nil {
		_ = c.end(context.Background(), failed...)
		return nil, explain(err, logPath)
	}
	return c, nil
}

func openLog(path string) (*os.File, error) {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open server log: %w", err)
	}
	return log, nil
}

// startChild runs a process in a group of its own, so that a terminal's Ctrl-C reaches us alone and
// we decide how it ends.
//
// The kernel ties the parent-death signal to the thread that forked, not to the process: a child
// forked from a thread that the runtime retires later would be killed out of the blue. The forking
// goroutine therefore keeps its thread until the child ends.
func startChild(spec childSpec) (*child, error) {
	c := &child{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()

		cmd := exec.Command(spec.path, spec.args...)
		cmd.Dir = spec.dir
		cmd.Env = append(childEnv(), spec.env...)
		cmd.Stdout, cmd.Stderr = spec.output, spec.output
		cmd.SysProcAttr = childAttr(spec)
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", spec.path, err)
			return
		}
		c.process = cmd.Process
		started <- nil
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// childEnv keeps the caller's PG* and locale variables away from the servers: PGDATA or a
// translated lc_messages would change where they work and what we read in their logs.
func childEnv() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, key := range []string{"PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return env
}

// signal ignores a process that has already ended: the caller wanted it gone.
func (c *child) signal(sig os.Signal) error {
	if err := c.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", c.process.Pid, err)
	}
	return nil
}

// end sends one signal after another, each with its own patience, and finishes with SIGKILL, which
// nothing survives. A cancelled context cuts the patience short; it never leaves the process
// running.
func (c *child) end(ctx context.Context, steps ...endStep) error {
	for _, step := range steps {
		if err := c.signal(step.signal); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, step.patience)
		select {
		case <-c.done:
			cancel()
			return nil
		case <-limited.Done():
			cancel()
		}
	}
	// A stopped process (SIGSTOP) does not react to anything else.
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.done
	return nil
}

func (c *child) ended() <-chan struct{} { return c.done }

type endStep struct {
	signal   syscall.Signal
	patience time.Duration
}

// until returns once ready reports that this server, and not another one that happens to have the
// port, answers.
func (c *child) until(ctx context.Context, ready func(*child) bool) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until it is ready: %w", ctx.Err())
		case <-c.done:
			return errExited
		case <-ticker.C:
			if ready(c) {
				return nil
			}
		}
	}
}
