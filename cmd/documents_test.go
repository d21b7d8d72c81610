package cmd

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// documents returns README and everything below docs that people write, by name.
func documents(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	read := func(name string) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		found[name] = string(text)
	}
	read("../README.md")
	require.NoError(t, filepath.WalkDir("../docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".md" {
			read(name)
		}
		return err
	}))
	return found
}

// commandLines are the calls of the program in a document: in its blocks, and in what stands between backquotes.
func commandLines(text string) (lines []string) {
	inBlock := regexp.MustCompile(`(?m)(?:^|[|&;(] *|\$ )outboxctl ([^|;&)#\n]*)`)
	inText := regexp.MustCompile("`outboxctl ([^`]*)`")
	for i, part := range strings.Split(text, "```") {
		pattern := inText
		if i%2 == 1 {
			pattern = inBlock
		}
		for _, m := range pattern.FindAllStringSubmatch(part, -1) {
			lines = append(lines, strings.Split(m[1], "$(outboxctl ")...)
		}
	}
	return lines
}

// Every command line in the documents is one that the program reads: the command exists and has the flags.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	root := newRootCmd(cli.NewApp(cli.Streams{}, nil))
	found := 0
	for name, text := range documents(t) {
		for _, line := range commandLines(text) {
			words := strings.Fields(line)
			if len(words) == 0 || !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(words[0]) {
				continue // a choice such as dlq|event, an option, a version that was printed
			}
			cmd, rest, err := root.Find(words)
			if err != nil || cmd.Name() == "outboxctl" {
				t.Errorf("%s: no such command: %s", name, line)
				continue
			}
			for _, word := range rest {
				flag, _, _ := strings.Cut(word, "=")
				if long, isLong := strings.CutPrefix(flag, "--"); isLong && long != "" && !hasFlag(cmd, long) {
					t.Errorf("%s: no flag %s: %s", name, flag, line)
				}
			}
			found++
		}
	}
	require.Greater(t, found, 100)
}

func hasFlag(cmd *cobra.Command, name string) bool {
	return name == "help" || cmd.Flags().Lookup(strings.TrimRight(name, ",.:")) != nil || cmd.InheritedFlags().Lookup(strings.TrimRight(name, ",.:")) != nil
}

// Every setting in the documents exists.
func TestDocumentsNameSettingsThatExist(t *testing.T) {
	t.Parallel()
	known, sections := map[string]bool{}, map[string]bool{}
	for _, s := range cli.Settings() {
		known[s.Name] = true
		section, _, _ := strings.Cut(s.Name, ".")
		sections[section] = true
	}
	name := regexp.MustCompile("`([a-z]+)\\.([a-z_]+)`")
	found := 0
	for file, text := range documents(t) {
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			if !sections[m[1]] || m[1] == "topics" || m[2] == "yaml" || m[0] == "`pubsub.publisher`" || m[0] == "`pubsub.editor`" {
				continue
			}
			if !known[m[1]+"."+m[2]] {
				t.Errorf("%s: no setting %s.%s", file, m[1], m[2])
			}
			found++
		}
	}
	require.Greater(t, found, 20)
}

// Every link in the documents leads to a file that is there.
func TestDocumentsLinkToFilesThatExist(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#: ]+)(?:#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	found := 0
	for file, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: no file %s", file, m[1])
			}
			found++
		}
	}
	require.Greater(t, found, 50)
}

// Every test that the documents name as a proof exists.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	}))
	found := 0
	for file, text := range documents(t) {
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s: no test %s", file, m[1])
			}
			found++
		}
	}
	require.Greater(t, found, 50)
}
