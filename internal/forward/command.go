package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// killDelay is how long a process has to end after it was asked to.
const killDelay = 5 * time.Second

// ExitMalformed is sysexits' EX_DATAERR: the input was incorrect.
const ExitMalformed = 65

// A NULError is the error of an attribute that a process cannot be given.
type NULError struct{ Variable string }

func (e *NULError) Error() string {
	return "a NUL byte cannot be passed to the command in " + e.Variable
}

// ExitError is how a command ended that has not handled its event.
type ExitError struct {
	// Code is its exit code, or -1 where a signal has ended it.
	Code int
	// Text is the end of what it printed to its standard error.
	Text string
	err  error
}

func (e *ExitError) Error() string {
	if e.Text != "" {
		return fmt.Sprintf("the command ended with %v: %s", e.err, e.Text)
	}
	return fmt.Sprintf("the command ended with %v", e.err)
}

func (e *ExitError) Unwrap() error { return e.err }

// Env is all that is known of the event, as environment variables: every attribute is in
// OUTBOX_ATTRIBUTES, as JSON.
func (e Event) Env() []string {
	attributes, _ := json.Marshal(e.Attributes) // texts always can be
	env := []string{
		"OUTBOX_EVENT_ID=" + e.ID, "OUTBOX_EVENT_TYPE=" + e.Type,
		"OUTBOX_AGGREGATE_TYPE=" + e.AggregateType, "OUTBOX_AGGREGATE_ID=" + e.AggregateID, "OUTBOX_NAMESPACE=" + e.Namespace,
		"OUTBOX_TENANT_ID=" + e.TenantID, "OUTBOX_DEDUPE_KEY=" + e.DedupeKey, "OUTBOX_CREATED_AT=" + e.CreatedAt,
		"OUTBOX_EVENT_SEQ=" + e.Attributes[wire.AttrEventSeq], "OUTBOX_ORDERING_KEY=" + e.OrderingKey,
		"OUTBOX_ATTEMPT=" + strconv.Itoa(e.Attempt), "OUTBOX_ATTRIBUTES=" + string(attributes),
	}
	for name, value := range e.trace() {
		if !strings.ContainsRune(value, 0) {
			env = append(env, strings.ToUpper(name)+"="+value)
		}
	}
	return env
}

// Run has a command of the shell handle an event: the body is its input, env is added to its
// environment. What it prints goes to out. When ctx ends, it and what it has started are asked to
// end, and a moment later made to. The error is an *ExitError, a *NULError, or why it did not run.
func Run(ctx context.Context, command string, env []string, body []byte, out io.Writer) error {
	for _, entry := range env {
		if name, value, _ := strings.Cut(entry, "="); strings.ContainsRune(value, 0) {
			return &NULError{name}
		}
	}
	both := &locked{out: out} // two pipes are read side by side
	said := &tail{out: both}
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(body), both, said
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	if cmd.Process != nil && ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind would go on by itself
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("run the command: %w", ctx.Err())
	case errors.As(err, &exit):
		return &ExitError{Code: exit.ExitCode(), Text: said.text(), err: err}
	}
	return fmt.Errorf("run the command: %w", err)
}

// locked is a writer for several.
type locked struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// tail keeps the end of what is written, and hands all of it on.
type tail struct {
	out io.Writer
	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.end = append(t.end, p...)
	if more := len(t.end) - textBytes; more > 0 {
		t.end = append(t.end[:0], t.end[more:]...)
	}
	t.mu.Unlock()
	return t.out.Write(p)
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.end)), "")
}
