package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"regexp"
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
	dir := rig.StateDir("")
	defer func() { _ = os.RemoveAll(dir) }()
	stack := exec.CommandContext(ctx, program, "dev", "--demo", "--demo-rate", "100", "--no-ui", "--state-dir", dir)
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

const (
	cell, row, margin = 8.4, 20, 18
	windowBar         = 30
)

// styles are the classes of the attributes and colours that our output uses.
var styles = map[string]string{ //nolint:global // a table
	"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c",
}

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// drawScreen draws text with its colours as a window.
func drawScreen(text string) []byte {
	lines := strings.Split(text, "\n")
	height := windowBar + len(lines)*row + margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="outboxctl on a terminal">
<style>
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dee6; white-space: pre }
.b { font-weight: 700; fill: #fff } .d { fill: #8b97a3 } .r { fill: #ff7b72 } .g { fill: #56d364 } .y { fill: #e3b341 } .c { fill: #76d9e6 }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#11161c"/>
<circle cx="18" cy="16" r="5" fill="#ff7b72"/><circle cx="36" cy="16" r="5" fill="#e3b341"/><circle cx="54" cy="16" r="5" fill="#56d364"/>
`, int(columns*cell)+2*margin, height)
	for i, line := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", margin,
			windowBar+(i+1)*row, spans(line))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// spans turns a line's escape sequences into elements.
func spans(line string) string {
	var b strings.Builder
	class := ""
	write := func(text string) {
		if text == "" {
			return
		}
		if class == "" {
			b.WriteString(html.EscapeString(text))
			return
		}
		fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text))
	}
	for {
		at := escape.FindStringSubmatchIndex(line)
		if at == nil {
			write(line)
			return b.String()
		}
		write(line[:at[0]])
		class = ""
		for code := range strings.SplitSeq(line[at[2]:at[3]], ";") {
			if style, known := styles[code]; known {
				class = style
			}
		}
		line = line[at[1]:]
	}
}
