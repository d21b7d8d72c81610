package cmd

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
)

func TestHelpListsTheTopics(t *testing.T) {
	t.Parallel()
	code, out, _ := runCLI(t, nil, "--help")
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `Additional help topics:\n  outboxctl environment .*\n  outboxctl exit-codes .*\n`, out)
}

func TestHelpEnvironmentNamesEveryVariable(t *testing.T) {
	t.Parallel()
	code, out, stderr := runCLI(t, nil, "help", "environment")
	require.Equal(t, cli.ExitOK, code, stderr)
	for _, k := range cli.Settings() {
		for _, name := range k.EnvNames() {
			require.Regexp(t, `(?m)^  `+name+`\s+\S`, out)
		}
	}
}

// The page and the documented contract say the same.
func TestHelpExitCodesIsTheDocumentedContract(t *testing.T) {
	t.Parallel()
	code, out, stderr := runCLI(t, nil, "help", "exit-codes")
	require.Equal(t, cli.ExitOK, code, stderr)
	contract, err := os.ReadFile("../docs/json-output.md")
	require.NoError(t, err)
	for n, word := range map[int]string{
		cli.ExitOK: "done", cli.ExitFailed: "failed", cli.ExitUsage: "usage or configuration", cli.ExitNotFound: "not", cli.ExitPrecondition: "precondition",
		cli.ExitPartial: "partly done", cli.ExitRefused: "refused",
	} {
		require.Regexp(t, fmt.Sprintf(`(?m)^  %d +.*%s`, n, word), out)
		require.Regexp(t, fmt.Sprintf(`(?m)^\| %d \| .*%s`, n, word), string(contract))
	}
	_, nagios, found := strings.Cut(out, "Nagios")
	require.True(t, found)
	require.Regexp(t, `(?m)^  3 +unknown`, nagios)
}
