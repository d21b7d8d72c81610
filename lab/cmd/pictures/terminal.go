package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/wait"
)

const (
	columns = 100
	// traffic is how long the demo runs before it is looked at.
	traffic = 20 * time.Second
)

// drawTerminal shows what an operator sees of a stack with demo traffic: how it does, the causes of death, and why.
func drawTerminal(ctx context.Context, program, out string) (err error) {
	dir, err := os.MkdirTemp("", "pictures-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL runs as another user
		return err
	}
	stack := exec.CommandContext(ctx, program, "dev", "--demo", "--demo-rate", "100", "--no-ui", "--state-dir", dir) //nolint:gosec // the caller names it
	if err := stack.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Process.Signal(os.Interrupt)); _ = stack.Wait() }() // it ends by the signal
	if err := wait.For(ctx, traffic); err != nil {
		return err
	}

	id, err := outboxctl(ctx, dir, strings.Fields("event list --status dead --type cash_collected --limit 1 -o id"))
	if err != nil {
		return err
	}
	var screen bytes.Buffer
	for _, line := range []string{"stats", "dlq list --group-by fingerprint", "why " + strings.TrimSpace(id)} {
		printed, err := outboxctl(ctx, dir, strings.Fields(line))
		if err != nil {
			return err
		}
		fmt.Fprintf(&screen, "\x1b[1m$ outboxctl %s\x1b[0m\n%s\n", line, printed)
	}
	file, err := os.Create(out) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	return errors.Join(drawScreen(file, strings.TrimRight(screen.String(), "\n")), file.Close())
}

// outboxctl runs a command as on a terminal, and returns what that shows.
func outboxctl(ctx context.Context, dir string, args []string) (string, error) {
	var out, talk bytes.Buffer
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &talk, OutTTY: true, Width: columns, Height: 50}
	if code := cmd.Run(ctx, args, streams, []string{"OUTBOXCTL_STATE_DIR=" + dir, "CLICOLOR_FORCE=1"}); code != 0 {
		return "", fmt.Errorf("outboxctl %s: exit code %d: %s", strings.Join(args, " "), code, talk.String())
	}
	host, err := os.Hostname()
	return strings.ReplaceAll(out.String(), host+"/", "laptop/"), err
}
