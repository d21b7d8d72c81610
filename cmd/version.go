package cmd

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker: -X github.com/outboxctl/outboxctl/cmd.version=…
var (
	version = ""
	commit  = ""
	date    = ""
)

type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Go      string `json:"go"`
}

func (v versionInfo) String() string {
	return fmt.Sprintf("%s (commit %s, built %s, %s)", v.Version, v.Commit, v.Date, v.Go)
}

// buildVersion prefers what the linker was told and falls back on what the Go toolchain recorded.
func buildVersion() versionInfo {
	v := versionInfo{Version: version, Commit: commit, Date: date, Go: runtime.Version()}
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

type versionOptions struct {
	app *App

	output outputFlag
}

func newVersionCmd(app *App) *cobra.Command {
	opts := &versionOptions{app: app}
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show version, commit and build date",
		Example: "  outboxctl version -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runVersion(cmd.Context(), opts) },
	}
	addOutputFlag(cmd, &opts.output, objectFormats()...)
	return cmd
}

func runVersion(_ context.Context, opts *versionOptions) error {
	v := buildVersion()
	return writeObject(opts.app, opts.output.format, v, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "outboxctl", v)
		return err
	})
}
