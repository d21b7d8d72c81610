package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// advised finds where a text names a command of ours, up to the end of the clause.
var advised = regexp.MustCompile("\\boutboxctl ([a-z]+\\b[^`;,.()|&>#\"\\n]*)")

// Each command that a message, an alert or the runbook advises exists, with its flags.
func TestEveryAdvisedCommandExists(t *testing.T) {
	t.Parallel()
	found := map[string]string{} // by where
	for _, folder := range []string{"../cmd", "../internal", "../ui"} {
		for name, text := range stringsIn(t, folder) {
			for _, m := range advised.FindAllStringSubmatch(text, -1) {
				found[name+": "+m[1]] = m[1]
			}
		}
	}
	require.Greater(t, len(found), 100)
	for _, name := range []string{"docs/operations.md", "deploy/prometheus/alerts.yaml"} {
		text := repositoryFile(t, name)
		for _, m := range advised.FindAllStringSubmatch(text, -1) {
			found[name+": "+m[1]] = m[1]
		}
	}
	root := newRootCmd(cli.NewApp(cli.Streams{}, nil))
	for where, words := range found {
		checkAdvised(t, root, where, strings.Fields(words))
	}
}

// checkAdvised walks down to the command and looks for each flag that is named with it.
func checkAdvised(t *testing.T, at *cobra.Command, where string, words []string) {
	t.Helper()
	for len(words) > 0 {
		next := child(at, words[0])
		if next == nil {
			break
		}
		at, words = next, words[1:]
	}
	if !at.HasParent() {
		return // the name of the program in a sentence
	}
	at.InheritedFlags() // merges those of the parents
	if group := at.HasSubCommands() && at.NonInheritedFlags().FlagUsages() == ""; group && len(words) > 0 && !strings.HasPrefix(words[0], "%") {
		assert.Fail(t, at.CommandPath()+" has no such command", where)
	}
	for _, word := range words {
		if word == "outboxctl" || strings.HasPrefix(words[0], "%") && at.HasSubCommands() {
			return // another command
		}
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if name = strings.TrimRight(name, ":'…"); !isFlag || name == "" || strings.ContainsAny(name, "%|") {
			continue
		}
		assert.NotNil(t, at.Flag(name), "%s: %s has no flag --%s", where, at.CommandPath(), name)
	}
}

func child(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

// stringsIn are the texts of the Go files under a folder, without tests, by file and line.
func stringsIn(t *testing.T, folder string) map[string]string {
	t.Helper()
	texts, files := map[string]string{}, token.NewFileSet()
	require.NoError(t, filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					texts[files.Position(lit.Pos()).String()] = text
				}
			}
			return true
		})
		return nil
	}))
	return texts
}
