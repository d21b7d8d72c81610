package cmd

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
)

func TestHelpListsTheTopics(t *testing.T) {
	t.Parallel()
	code, out, _ := runCLI(t, nil, "--help")
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `More help:\n  environment .*\n  exit-codes .*\n  options .*\n`, out)
}

// Help fits the terminal, breaks no word, and names the flags of all commands once.
func TestHelpFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []int{0, 60, 80, 200} {
		app := cli.NewApp(cli.Streams{Width: width}, nil)
		walk(newRootCmd(app), func(c *cobra.Command) {
			var out bytes.Buffer
			c.SetOut(&out)
			require.NoError(t, c.Help())
			text := out.String()
			require.Equal(t, c.Name() == "options", strings.Contains(text, "--database-url url"), text)
			if c.Example != "" {
				require.Contains(t, text, c.Example, "to be copied")
				text = strings.ReplaceAll(text, c.Example, "")
			}
			most := map[int]int{0: cli.HelpWidth, 200: cli.WidestHelp}[width]
			for line := range strings.Lines(text) {
				if fits := utf8.RuneCountInString(line) <= max(most, width%200)+1; !fits {
					require.Len(t, strings.Fields(line), 1, "%s at %d: %s", c.CommandPath(), width, line)
				}
				require.Equal(t, strings.TrimRight(line, " \n")+"\n", line)
			}
			for _, word := range strings.Fields(c.Long) {
				require.Contains(t, text, word)
			}
		})
	}
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
