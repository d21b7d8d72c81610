package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/check"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// RunText runs one command line in this process. A process of its own is for what one is needed for: signals, a crash, a
// terminal, a folder that is not the tests'.
func RunText(ctx context.Context, environ []string, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, talk lockedBuffer
	code = Run(ctx, args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &talk}, environ)
	return code, out.String(), talk.String()
}

// lockedBuffer takes what several goroutines of a command write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// runCLI runs one command line and follows the hints that it gives.
func runCLI(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	code, stdout, stderr = RunText(t.Context(), environ, "", args...)
	followHints(t, environ, stderr)
	return code, stdout, stderr
}

// walk visits every command of the tree.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

// A command or a flag that does not exist is a usage error, on every level; a group that does nothing by itself prints its
// help.
func TestEveryCommandRefusesNonsense(t *testing.T) {
	t.Parallel()
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		t.Run(strings.Join(path, "_"), func(t *testing.T) {
			t.Parallel()
			code, out, stderr := runCLI(t, nil, append(path, "--no-such-flag")...)
			want, line := cli.ExitUsage, ""
			if c.CommandPath() == "outboxctl check" {
				want, line = check.Unknown, "OUTBOX UNKNOWN - unknown flag: --no-such-flag\n"
			}
			require.Equal(t, want, code, stderr)
			require.Equal(t, line, out)
			require.Equal(t, line == "", strings.Contains(stderr, "error: unknown flag: --no-such-flag\n"), stderr)
			if !c.HasAvailableSubCommands() {
				return
			}
			code, _, stderr = runCLI(t, nil, append(path, "no-such-command")...)
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Contains(t, stderr, `unknown command "no-such-command" for "`+c.CommandPath()+`"`)
			if doesItself := []string{"audit", "migrate", "pause"}; !slices.Contains(doesItself, c.Name()) {
				code, out, stderr = runCLI(t, nil, path...)
				require.Equal(t, cli.ExitOK, code, stderr)
				require.Contains(t, out, "Usage:\n  "+c.CommandPath())
				require.Empty(t, stderr)
			}
		})
	})
}

// What is wrong with a command line is a usage error with a hint.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"why":                     "accepts 1 arg(s), received 0",
		"why a b":                 "accepts 1 arg(s), received 2",
		"stats now":               `unknown command "now" for "outboxctl stats"`,
		"stats -x":                "unknown shorthand flag: 'x' in -x",
		"stats --by":              "flag needs an argument: --by",
		"stats --interval soon":   `invalid argument "soon" for "--interval" flag: "soon" is not a duration such as 500ms, 30s, 12h, 30d or 2w`,
		"cleanup --max-rows many": `invalid argument "many" for "--max-rows" flag: strconv.ParseInt: parsing "many": invalid syntax`,
		"migrate sidewys":         `unknown command "sidewys" for "outboxctl migrate"`,
	} {
		code, _, stderr := runCLI(t, nil, strings.Fields(words)...)
		require.Equal(t, cli.ExitUsage, code, words)
		require.Contains(t, stderr, "error: "+want+"\n", words)
		require.Contains(t, stderr, "hint: ", words)
	}
}

// Every command explains itself, and the ones that do something show an example.
func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		if c.Runnable() && !c.HasSubCommands() && c.Name() != "help" && c.Parent().Name() != "completion" { // cobra wrote those
			require.NotEmpty(t, c.Example, c.CommandPath())
		}
	})
}

// An operator who keeps events for 30d expects every duration to be written so.
func TestEveryDurationTakesDaysAndWeeks(t *testing.T) {
	t.Parallel()
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			for _, text := range []string{"30d", "2w", "12h"} {
				require.NoError(t, f.Value.Set(text), "%s --%s", c.CommandPath(), f.Name)
			}
		})
	})
}

func TestSuggestion(t *testing.T) {
	t.Parallel()
	_, _, stderr := runCLI(t, nil, "confg")
	require.Equal(t, "error: unknown command \"confg\" for \"outboxctl\"\nhint: did you mean config?\n", stderr)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		cli.ExitFailed:       cli.Ran(errors.New("x")),
		cli.ExitUsage:        fault.Usagef("x"),
		cli.ExitNotFound:     fault.NotFoundf("x"),
		cli.ExitPrecondition: fault.Preconditionf("x"),
		cli.ExitPartial:      fault.Partialf("x"),
		cli.ExitRefused:      fault.Refusedf("x"),
		42:                   cli.Silent(42),
	} {
		require.Equal(t, want, cli.ExitCode(err))
		require.Equal(t, want, cli.ExitCode(fmt.Errorf("around: %w", fault.Hint(err, "h"))), "wrapping keeps the code")
	}
	require.Equal(t, cli.ExitUsage, cli.ExitCode(cli.ConfigProblems("x")))
}

// What cobra finds wrong before a command runs is the caller's mistake, whatever form cobra gives it.
func TestErrorsBeforeTheCommandRunsAreUsageErrors(t *testing.T) {
	t.Parallel()
	require.Equal(t, cli.ExitUsage, cli.ExitCode(errors.New("if any flags in the group [a b] are set none of the others can be")))
}

func TestUnreachableDatabaseIsAPrecondition(t *testing.T) {
	t.Parallel()
	app := cli.NewApp(cli.Streams{Err: &bytes.Buffer{}}, []string{"DATABASE_URL=postgres://app:canary@127.0.0.1:1/x"})
	_, err := app.Pool(context.Background())
	require.Equal(t, cli.ExitPrecondition, cli.ExitCode(err))
	require.NotContains(t, err.Error(), "canary")
}

func TestMissingSettingsAreReportedTogether(t *testing.T) {
	t.Parallel()
	app := cli.NewApp(cli.Streams{Err: &bytes.Buffer{}}, []string{"OUTBOXCTL_LOG_LEVEL=loud", "HOME=" + t.TempDir()})
	_, err := app.Config("database.url", "pubsub.project")
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	require.ErrorContains(t, err, "3 problems")
	require.ErrorContains(t, err, "database.url is not set (--database-url or OUTBOXCTL_DATABASE_URL, DATABASE_URL)")
}

// A variable that was not set must not make a command publish or change everything.
func TestEmptyFiltersAreRefused(t *testing.T) {
	t.Parallel()
	var dead, events []string
	for _, f := range (&outbox.Query{State: "open"}).Fields() {
		if f.Choices == nil && f.Name != "blocking" {
			dead = append(dead, f.Name)
		}
	}
	for _, f := range (&outbox.Query{}).Fields() {
		if f.Choices == nil {
			events = append(events, f.Name)
		}
	}
	for _, tc := range []struct {
		words string
		flags []string
	}{
		{"publish --once", []string{"namespace", "tenant", "event-type"}},
		{"dlq replay --since 1h --yes", dead},
		{"dlq discard --since 1h --yes", dead},
		{"dlq restore --since 1h --yes", dead},
		{"dlq export", dead},
		{"event republish --since 1h --yes", events},
	} {
		for _, flag := range tc.flags {
			code, _, stderr := runCLI(t, nil, append(strings.Fields(tc.words), "--"+flag, "")...)
			require.Equal(t, cli.ExitUsage, code)
			require.Equal(t, "error: --"+flag+" must not be empty\n", stderr, tc.words)
		}
	}
}

func TestReportShowsHintAndHidesSecrets(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	app := cli.NewApp(cli.Streams{Err: &stderr}, nil)
	app.Report(fault.Hint(errors.New("dial postgres://app:canary@db/x: \x1b[2Jgone"), "run outboxctl doctor"))
	require.Equal(t, "error: dial postgres://app:****@db/x: ^[[2Jgone\nhint: run outboxctl doctor\n", stderr.String())
}

// A refusal names --dry-run only where there is one.
func TestARefusalNamesFlagsThatExist(t *testing.T) {
	t.Parallel()
	app := cli.NewApp(cli.Streams{}, nil)
	walk(newRootCmd(app), func(c *cobra.Command) {
		if c.Flags().Lookup("yes") == nil {
			return
		}
		app.BindFlags(c)
		hint := fault.HintOf(app.Confirm(t.Context(), false, 0, "drop everything"))
		require.NotEmpty(t, hint)
		require.Equal(t, c.Flags().Lookup("dry-run") != nil, strings.Contains(hint, "--dry-run"), c.CommandPath())
	})
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tty    bool
		yes    bool
		answer string
		want   int
	}{
		"yes flag":         {yes: true, want: cli.ExitOK},
		"no terminal":      {want: cli.ExitRefused},
		"terminal, yes":    {tty: true, answer: "y\n", want: cli.ExitOK},
		"terminal, no":     {tty: true, answer: "n\n", want: cli.ExitRefused},
		"terminal, return": {tty: true, answer: "\n", want: cli.ExitRefused},
		"terminal, Ctrl-D": {tty: true, answer: "", want: cli.ExitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := cli.NewApp(cli.Streams{In: strings.NewReader(tc.answer), Err: &bytes.Buffer{}, InTTY: tc.tty, ErrTTY: tc.tty}, nil)
			err := app.Confirm(t.Context(), tc.yes, 0, "drop everything?")
			if tc.want == cli.ExitOK {
				require.NoError(t, err)
				return
			}
			require.Equal(t, tc.want, cli.ExitCode(err))
		})
	}
}

// cobra keeps what completes a flag for good, and the flag with it: each run inside one process would cost memory.
func TestACommandThatRanIsForgotten(t *testing.T) {
	t.Parallel()
	root := newRootCmd(cli.NewApp(cli.Streams{}, nil))
	tree, flag := weak.Make(root), weak.Make(root.PersistentFlags().Lookup(cli.FlagContext))
	root = nil
	require.Eventually(t, func() bool { runtime.GC(); return tree.Value() == nil && flag.Value() == nil },
		time.Minute, time.Millisecond)
}
