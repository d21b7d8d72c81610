package cmd

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// openBrowser opens an address in the person's browser. A page that cannot be opened here is served
// all the same.
func openBrowser(ctx context.Context, app *cli.App, address string) {
	words := browserCommand(app.Env("BROWSER"), runtime.GOOS)
	run := exec.CommandContext(context.WithoutCancel(ctx), words[0], append(words[1:], address)...)
	if err := run.Start(); err != nil {
		fmt.Fprintf(app.Err, "the browser cannot be opened (%v); open the address yourself\n", err)
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
