package cmd

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// isID finds what a hint may name of a row.
var isID = regexp.MustCompile(`^[0-9a-f-]{6,36}$`)

// followHints runs what the hints of a command advise, where that only looks: whatever a test brought about, the advice for
// it is not refused as nonsense.
func followHints(t *testing.T, environ []string, talk string) {
	t.Helper()
	for line := range strings.Lines(talk) {
		hint, is := strings.CutPrefix(line, "hint: ")
		if !is || strings.HasPrefix(hint, "usage: ") {
			continue
		}
		for _, m := range advised.FindAllStringSubmatch(hint, -1) {
			args := lookOf(strings.Fields(m[1]))
			if args == nil {
				continue
			}
			var out, errOut bytes.Buffer
			code := Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errOut}, environ)
			answered := out.Len() > 0 // config view shows bad values as well, and then says so
			require.True(t, answered || code != cli.ExitUsage, "%s\n%s\n%s", line, args, errOut.String())
		}
	}
}

// lookOf is the command line at the beginning of a hint, without the sentence that follows it. It is empty for one that
// changes something, does not end by itself, or leaves a value to the reader.
func lookOf(words []string) []string {
	at := newRootCmd(cli.NewApp(cli.Streams{}, nil))
	var args []string
	for len(words) > 0 {
		next := child(at, words[0])
		if next == nil {
			break
		}
		at, args, words = next, append(args, words[0]), words[1:]
	}
	if !at.HasParent() || !at.Runnable() || effectOf(at).Writes || at.Name() == "dev" || at.Name() == "ui" || at.Name() == "tail" {
		return nil
	}
	at.InheritedFlags() // merges those of the parents
	for len(words) > 0 {
		name, isFlag := strings.CutPrefix(words[0], "--")
		switch flag := at.Flag(name); {
		case isFlag && flag != nil && flag.NoOptDefVal == "" && len(words) > 1:
			if strings.ToUpper(words[1]) == words[1] || words[1] == "…" {
				return nil
			}
			args, words = append(args, words[:2]...), words[2:]
		case isFlag, isID.MatchString(words[0]), slices.Contains(at.ValidArgs, words[0]):
			args, words = append(args, words[0]), words[1:]
		case words[0] == "ID" || words[0] == "FILE":
			return nil
		default:
			return args
		}
	}
	return args
}
