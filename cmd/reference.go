package cmd

import (
	"bytes"
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

	"github.com/outboxctl/outboxctl/internal/cli"
)

// WriteReference writes everything that is generated from the command tree below dir: shell completions, man pages
// and the configuration reference. The same code writes the same bytes, so a comparison shows what is stale.
func WriteReference(dir string) error {
	app := cli.NewApp(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, nil)
	app.Build = buildVersion()
	root := newRootCmd(app)
	root.DisableAutoGenTag = true
	files := map[string]func(io.Writer) error{
		"completions/outboxctl.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"completions/_outboxctl":     root.GenZshCompletion,
		"completions/outboxctl.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"docs/configuration.md":      writeConfigReference,
	}
	addManPages(files, root)
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

// addManPages adds one page per command that help shows.
func addManPages(files map[string]func(io.Writer) error, cmd *cobra.Command) {
	if cmd.HasParent() && !cmd.IsAvailableCommand() && !cmd.IsAdditionalHelpTopicCommand() {
		return
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	files["docs/man/"+name+".1"] = func(w io.Writer) error { return writeManPage(w, cmd, name) }
	for _, sub := range cmd.Commands() {
		addManPages(files, sub)
	}
}

var manDate = regexp.MustCompile(`(?m)^(\.TH "[^"]*" "1") "[^"]*"`)

// writeManPage leaves the date out: a page that changes every month by itself could not be compared.
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

const configReferenceHead = `# Configuration

This page is generated from the code.

A value comes from the first of these that has one: a flag, an environment variable, the configuration file, a running
` + "`outboxctl dev`" + ` stack (only when no server is configured at all), the default. ` + "`outboxctl config view`" + ` shows every value with its
origin.

The file is the one that ` + "`--config`" + ` or ` + "`OUTBOXCTL_CONFIG`" + ` names, otherwise ` + "`outboxctl.yaml`" + ` in the working directory, otherwise
` + "`outboxctl/config.yaml`" + ` in the user's configuration folder. One that was not named must belong to you or root, and neither it nor its folder may be
writable by others; the same goes for the folder of the dev stack. A key that does not exist is an error. All problems are reported together,
with exit code 2.

Durations take ` + "`500ms`, `30s`, `12h`, `30d`, `2w`" + `. The environment variable of a key is ` + "`OUTBOXCTL_`" + ` and its name: ` + "`OUTBOXCTL_DATABASE_URL`" + `
for ` + "`database.url`" + `. Where others are named below, the first one set wins. In the file a point is a level: ` + "`database: {url: …}`" + `.

| key | default | meaning |
|---|---|---|
`

const configReferenceTail = `
## Contexts

The file may name several installations:

` + "```yaml" + `
current_context: staging      # outboxctl config use-context NAME writes it
contexts:
  staging:
    database: {url: "postgres://ann@staging.internal/outbox"}
    pubsub: {project: acme-staging}
  production:
    production: true          # above 100 rows, and before anything is destroyed, its name has to be typed
    read_only: true           # refuses every command that writes to database, broker or Redis
    database: {url: "postgres://ann@production.internal/outbox"}
    redis: {url: "rediss://production.internal"}
    pubsub: {project: acme}
` + "```" + `

` + "`--context NAME`, then `OUTBOXCTL_CONTEXT`, then `current_context`" + ` choose one. It may set any key, and beats the environment and the rest of the
file; flags beat it. Which servers are meant (%s) comes from the context and from flags alone: what
it leaves out is not set, so that one installation is never completed with the servers of another.
` + "`outboxctl config contexts` lists them. `publish`, `cleanup`, `check`, `stats`, `doctor` and `ui` take several, `--context a,b`, or `--context all`" + `
([several databases](operations.md#several-databases)).
`

func writeConfigReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(configReferenceHead)
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
	fmt.Fprintf(&b, configReferenceTail, "`"+strings.Join(cli.ServerKeys(), "`, `")+"`")
	_, err := io.WriteString(w, b.String())
	return err
}

// referenceRows are the settings in their order, those that mean the same for several brokers together.
func referenceRows() (rows [][]cli.Setting) {
	for _, k := range cli.Settings() {
		leaf := k.Name[strings.LastIndex(k.Name, ".")+1:]
		same := slices.IndexFunc(rows, func(row []cli.Setting) bool {
			first := row[0]
			return strings.HasSuffix(first.Name, "."+leaf) && first.Help == k.Help && first.Def == k.Def && first.Flag == k.Flag
		})
		if same < 0 {
			rows = append(rows, []cli.Setting{k})
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
