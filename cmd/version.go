package cmd

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// Set by the linker: -X github.com/outboxctl/outboxctl/cmd.version=…
var (
	version = ""
	commit  = ""
	date    = ""
)

// buildVersion prefers what the linker was told and falls back on what the Go toolchain recorded.
func buildVersion() cli.Build {
	v := cli.Build{Version: version, Commit: commit, Date: date, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v.Version == "" && info.Main.Version != "(devel)" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && v.Commit == "":
				v.Commit = s.Value
			case s.Key == "vcs.time" && v.Date == "":
				v.Date = s.Value
			}
		}
	}
	for _, field := range []*string{&v.Version, &v.Commit, &v.Date} {
		if *field == "" {
			*field = "unknown"
		}
	}
	return v
}

func newVersionCmd(app *cli.App) *cobra.Command {
	return showing(app, &cobra.Command{
		Use:     "version",
		Short:   "Show version, commit and build date",
		Example: "  outboxctl version -o json",
	}, func(context.Context, []string) (cli.Build, error) { return app.Build, nil },
		func(p *cli.Page, v cli.Build) { fmt.Fprintln(p, "outboxctl", v) })
}
