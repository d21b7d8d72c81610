package score

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// process is one running outboxctl, with a log of its own.
type process struct {
	*rig.Child
	name string
	log  string
}

// start runs outboxctl until it ends or the world does.
func (w *world) start(name string, env []string, args ...string) (*process, error) {
	return w.run(w.Program, name, env, args...)
}

// run is start for another program.
func (w *world) run(program, name string, env []string, args ...string) (*process, error) {
	w.started++
	p := &process{name: name, log: filepath.Join(w.dir, fmt.Sprintf("%s-%d.log", name, w.started))}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the program has it
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = w.env(env...), log, log
	if p.Child, err = rig.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	w.onClose(func() error {
		p.Signal(syscall.SIGKILL) // it has usually ended
		<-p.Done
		return nil
	})
	return p, nil
}

// publish starts a publisher that serves no HTTP.
func (w *world) publish(name string, args ...string) (*process, error) {
	return w.start(name, nil, append([]string{"publish", "--http-addr", "127.0.0.1:0"}, args...)...)
}

// publishers starts several.
func (w *world) publishers(n int, args ...string) (all []*process, err error) {
	for i := range n {
		p, err := w.publish(fmt.Sprintf("publisher-%d", i+1), args...)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

// end signals the process and waits for its end.
func (p *process) end(ctx context.Context, sig syscall.Signal) error {
	p.Signal(sig)
	return p.wait(ctx, time.Minute)
}

func (p *process) wait(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-p.Done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", p.name, ctx.Err())
	}
}

// said counts how often a text is in the process's log.
func (p *process) said(text string) int {
	log, _ := os.ReadFile(p.log) // there while the world is
	return bytes.Count(log, []byte(text))
}

// owner is the id under which a publisher leases rows, once it has said so.
func (p *process) owner(ctx context.Context) (id string, err error) {
	name := regexp.MustCompile(`"publisher":"([0-9a-f-]{36})"`)
	err = eventually(ctx, 20*time.Second, func() (bool, error) {
		log, err := os.ReadFile(p.log)
		if m := name.FindSubmatch(log); m != nil {
			id = string(m[1])
		}
		return id != "", err
	})
	return id, err
}

// ready waits until all of them are publishing.
func ready(ctx context.Context, all ...*process) error {
	for _, p := range all {
		err := eventually(ctx, 30*time.Second, func() (bool, error) {
			if !p.Alive() {
				return false, fmt.Errorf("%s has ended", p.name)
			}
			return p.said(`"message":"publishing"`) > 0, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// command runs outboxctl to its end and returns what it printed.
func (w *world) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, w.Program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = w.env(), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("outboxctl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// exitPartial is outboxctl's code for a change of which a part was not possible.
const exitPartial = 5

// exitCode of a command, from the error it ended with.
func exitCode(err error) int {
	var exited *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exited):
		return exited.ExitCode()
	default:
		return -1
	}
}

// eventually asks until something holds.
func eventually(ctx context.Context, patience time.Duration, holds func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errPatience
		}
		if !rig.Pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}

var errPatience = errors.New("it does not come true in time")
