package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// Edited is a payload that a person edits.
type Edited interface {
	Check(data []byte) error
	// Same reports whether the data means what it meant before.
	Same(data []byte) bool
}

// EditPayload lets a person write a payload until it is valid or they leave it as it is. about is
// said above it. The file has a folder of its own, which other users cannot read and which is gone
// afterwards, with what the editor left beside it.
func (a *App) EditPayload(ctx context.Context, data []byte, what Edited, about ...string) ([]byte, error) {
	// A terminal that is closed in the meantime would end the process before it can remove the folder.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	folder, err := os.MkdirTemp(a.env["TMPDIR"], "outboxctl-edit-")
	if err != nil {
		return nil, fmt.Errorf("edit the payload: %w", err)
	}
	about = append(about, "Lines that begin with # are left out. An unchanged payload changes nothing.")
	text, err := a.editUntilValid(ctx, filepath.Join(folder, "payload.json"), indented(data)+"\n", what, about)
	if gone := os.RemoveAll(folder); err == nil && gone != nil {
		err = fmt.Errorf("remove the payload that was edited: %w", gone)
	}
	return []byte(text), err
}

// editUntilValid opens the file in the editor, again with what is wrong at the top, until it is
// valid or left as it was.
func (a *App) editUntilValid(ctx context.Context, name, text string, what Edited, about []string) (string, error) {
	head := about
	for {
		if err := os.WriteFile(name, []byte(comments(head)+text), 0o600); err != nil {
			return "", fmt.Errorf("edit the payload: %w", err)
		}
		if err := a.editFile(ctx, name); err != nil {
			return "", err
		}
		written, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("edit the payload: %w", err)
		}
		before := text
		text = withoutComments(string(written))
		problem := what.Check([]byte(text))
		switch {
		case problem == nil || what.Same([]byte(text)):
			return text, nil
		case text == before:
			return "", fault.Hint(problem, "nothing was changed")
		}
		head = append(strings.Split(problem.Error(), "\n"), "Leave it as it is to give up.", "")
		head = append(head, about...)
	}
}

// comments are lines that are not part of the payload.
func comments(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.TrimRight("# "+safetext.Line(line), " ") + "\n")
	}
	return text.String()
}

// withoutComments leaves out the lines that begin with #. No line of JSON does.
func withoutComments(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// editFile opens a file in the person's editor, $VISUAL or $EDITOR or what the machine has, and
// waits until it is closed.
func (a *App) editFile(ctx context.Context, name string) error {
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

// OpenBrowser opens an address in the person's browser. A page that cannot be opened here is served
// all the same.
func (a *App) OpenBrowser(ctx context.Context, address string) {
	words := browserCommand(a.env["BROWSER"], runtime.GOOS)
	run := exec.CommandContext(context.WithoutCancel(ctx), words[0], append(words[1:], address)...)
	if err := run.Start(); err != nil {
		fmt.Fprintf(a.Err, "the browser cannot be opened (%v); open the address yourself\n", err)
		return
	}
	go func() { _ = run.Wait() }() // it says itself what is wrong
}

// browserCommand is what opens an address on a system.
func browserCommand(chosen, system string) []string {
	switch words := strings.Fields(chosen); {
	case len(words) > 0:
		return words
	case system == "darwin":
		return []string{"open"}
	case system == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	return []string{"xdg-open"}
}
