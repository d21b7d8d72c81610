package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// AddYesFlag gives a destructive command its --yes.
func AddYesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do it without asking")
}

// Confirm lets a destructive command go on only when it was confirmed: by --yes, or by an answer at the terminal. The
// caller has already told on Err what will be touched. Without a terminal it cannot ask, and refuses.
func (a *App) Confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !a.InTTY || !a.ErrTTY {
		hint := "add --yes to do it"
		if a.dryRun {
			hint += ", or --dry-run to see what it would touch"
		}
		return fault.Hint(fault.Refusedf("%s: not confirmed", question), "%s", hint)
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	answer, err := a.readLine(ctx)
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(a.Err) // Ctrl-D is a no that leaves the cursor behind the question
	} else if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fault.Refusedf("nothing was changed")
}

// readLine reads one line and gives up when the context ends: a read from a terminal cannot be interrupted, so it is
// left behind for the end of the process.
func (a *App) readLine(ctx context.Context) (string, error) {
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := bufio.NewReader(a.In).ReadString('\n')
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		if r.line != "" {
			return r.line, nil
		}
		return "", r.err
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return "", ctx.Err()
	}
}
