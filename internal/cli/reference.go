package cli

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// WriteReference writes what is generated from the command tree and kept in git below dir: shell
// completions and the configuration reference. The same code writes the same bytes, so a comparison
// shows what is stale.
func WriteReference(dir string, root *cobra.Command) error {
	return writeFiles(dir, map[string]func(io.Writer) error{
		"completions/outboxctl.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"completions/_outboxctl":     root.GenZshCompletion,
		"completions/outboxctl.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"docs/configuration.md":      WriteConfigReference,
	})
}

// WriteManPages writes a page for every command that help shows into dir. A release makes them.
func WriteManPages(dir string, root *cobra.Command) error {
	root.DisableAutoGenTag = true
	pages := map[string]func(io.Writer) error{}
	addManPages(pages, root)
	return writeFiles(dir, pages)
}

func writeFiles(dir string, files map[string]func(io.Writer) error) error {
	for name, write := range files {
		var content bytes.Buffer
		if err := write(&content); err != nil {
			return fmt.Errorf("generate %s: %w", name, err)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("generate %s: %w", name, err)
		}
		if err := os.WriteFile(path, content.Bytes(), 0o644); err != nil {
			return fmt.Errorf("generate %s: %w", name, err)
		}
	}
	return nil
}

func addManPages(files map[string]func(io.Writer) error, cmd *cobra.Command) {
	if cmd.HasParent() && !cmd.IsAvailableCommand() && !cmd.IsAdditionalHelpTopicCommand() {
		return
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	files[name+".1"] = func(w io.Writer) error { return writeManPage(w, cmd, name) }
	for _, sub := range cmd.Commands() {
		addManPages(files, sub)
	}
}

var manDate = regexp.MustCompile(`(?m)^(\.TH "[^"]*" "1") "[^"]*"`)

// writeManPage leaves the date out: the same commit makes the same release.
func writeManPage(w io.Writer, cmd *cobra.Command, name string) error {
	epoch := time.Unix(0, 0).UTC()
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Date: &epoch, Source: "outboxctl", Manual: "outboxctl"}
	var page bytes.Buffer
	if err := doc.GenMan(cmd, header, &page); err != nil {
		return err
	}
	_, err := w.Write(manDate.ReplaceAll(page.Bytes(), []byte(`$1 ""`)))
	return err
}

// configuration is the page of the configuration reference, without its table and its keys of
// servers.
//
//go:embed configuration.md.tmpl
var configuration string

// WriteConfigReference writes the page that lists every setting.
func WriteConfigReference(w io.Writer) error {
	var b strings.Builder
	for _, row := range referenceRows() {
		var names []string
		for _, k := range row {
			names = append(names, "`"+k.Name+"`")
			if k.Flag != "" {
				names = append(names, "`--"+k.Flag+"`")
			}
			for _, env := range k.EnvNames() {
				if env != "OUTBOXCTL_"+strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_")) {
					names = append(names, "`"+env+"`")
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(names, "<br>"), code(row[0].Def), strings.ReplaceAll(row[0].Help, "|", `\|`))
	}
	_, err := fmt.Fprintf(w, configuration, b.String(), code(strings.Join(ServerKeys(), "`, `")))
	return err
}

// referenceRows are the settings in their order, those that mean the same for several brokers
// together.
func referenceRows() (rows [][]Setting) {
	for _, k := range Settings() {
		leaf := k.Name[strings.LastIndex(k.Name, ".")+1:]
		same := slices.IndexFunc(rows, func(row []Setting) bool {
			first := row[0]
			return strings.HasSuffix(first.Name, "."+leaf) && first.Help == k.Help && first.Def == k.Def && first.Flag == k.Flag
		})
		if same < 0 {
			rows = append(rows, []Setting{k})
			continue
		}
		rows[same] = append(rows[same], k)
	}
	return rows
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
