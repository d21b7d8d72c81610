package cmd_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/outboxctl/outboxctl/cmd"
)

// TestMain lets the stories run this binary as outboxctl.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"outboxctl": func() { os.Exit(cmd.Main(os.Args[1:], cmd.OSStreams(), os.Environ())) },
	})
}

// TestScripts runs the whole-CLI stories.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
