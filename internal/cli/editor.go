package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// EditFile opens a file in the person's editor, $VISUAL or $EDITOR or what the machine has, and waits until it is closed.
func (a *App) EditFile(ctx context.Context, name string) error {
	editor := cmp.Or(a.env["VISUAL"], a.env["EDITOR"])
	for _, there := range []string{"editor", "nano", "vi"} {
		if _, err := exec.LookPath(there); editor == "" && err == nil {
			editor = there
		}
	}
	if editor == "" {
		return fault.Hint(fault.Preconditionf("no editor was found"), "$VISUAL or $EDITOR names one; --data takes the payload without")
	}
	// The shell splits an editor with arguments, such as "code --wait".
	run := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", name)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stderr, os.Stderr // Out may be a pipe; what the editor draws is no data
	if err := run.Run(); err != nil {
		// Not wrapped: its exit code is not ours.
		return fault.Hint(fmt.Errorf("the editor %s: %s; nothing was changed", editor, err.Error()),
			"$VISUAL or $EDITOR chooses another")
	}
	return nil
}
