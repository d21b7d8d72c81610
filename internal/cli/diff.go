package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// WriteDiff shows how one text became another, line by line with three lines around each change,
// coloured on a terminal.
func (a *App) WriteDiff(w io.Writer, tty bool, was, is string) {
	was, is = strings.TrimRight(was, "\n")+"\n", strings.TrimRight(is, "\n")+"\n"
	diff, _ := udiff.ToUnifiedDiff("", "", was, udiff.Lines(was, is), udiff.DefaultContextLines) // the edits are its own
	gap := func() { fmt.Fprintln(w, a.Paint(tty, StyleFaint, "  …")) }
	line := 1
	for _, hunk := range diff.Hunks {
		if hunk.FromLine > line {
			gap()
		}
		line = hunk.FromLine
		for _, l := range hunk.Lines {
			text := safetext.Line(strings.TrimSuffix(l.Content, "\n"))
			switch l.Kind {
			case udiff.Delete:
				text, line = a.Paint(tty, StyleError, "- "+text), line+1
			case udiff.Insert:
				text = a.Paint(tty, StyleGood, "+ "+text)
			default:
				text, line = "  "+text, line+1
			}
			fmt.Fprintln(w, text)
		}
	}
	if line <= strings.Count(was, "\n") {
		gap()
	}
}
