package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	columns = 100
	// traffic is how long the demo runs before it is looked at.
	traffic = 20 * time.Second
)

// drawTerminal shows what an operator sees of a stack with demo traffic: how it does, the causes of
// death, and why.
func drawTerminal(ctx context.Context, program, out string) {
	dir := rig.Must(rig.StateDir(""))
	defer func() { _ = os.RemoveAll(dir) }()
	stack := exec.CommandContext(ctx, program, "dev", "--demo", "--demo-rate", "100", "--no-ui", "--state-dir", dir) //nolint:gosec // the caller names it
	rig.Check(stack.Start())
	defer func() { _ = stack.Process.Signal(os.Interrupt); _ = stack.Wait() }() // it ends by the signal
	rig.Pause(ctx, traffic)
	id := outboxctl(ctx, dir, "event list --status dead --type cash_collected --limit 1 -o id")
	var screen bytes.Buffer
	for _, line := range []string{"stats", "dlq list --group-by fingerprint",
		"why " + strings.TrimSpace(id)} {
		fmt.Fprintf(&screen, "\x1b[1m$ outboxctl %s\x1b[0m\n%s\n", line, outboxctl(ctx, dir, line))
	}
	rig.Check(os.WriteFile(out, drawScreen(strings.TrimRight(screen.String(), "\n")), 0o644))
}

// outboxctl runs a command as on a terminal, and returns what that shows.
func outboxctl(ctx context.Context, dir, line string) string {
	var out, talk bytes.Buffer
	streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &talk, OutTTY: true,
		Width: columns, Height: 50}
	if code := cmd.Run(ctx, strings.Fields(line), streams,
		[]string{"OUTBOXCTL_STATE_DIR=" + dir, "CLICOLOR_FORCE=1"}); code != 0 {
		rig.Check(fmt.Errorf("outboxctl %s: exit code %d: %s", line, code, talk.String()))
	}
	return strings.ReplaceAll(out.String(), rig.Must(os.Hostname())+"/", "laptop/")
}
