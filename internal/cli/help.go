package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HelpWidth is how wide help is where no terminal says it, WidestHelp how wide at most: longer
// lines are hard to read.
const HelpWidth, WidestHelp = 80, 100

// AddHelp makes help fit the terminal, and leaves the flags that every command has to options.
func AddHelp(app *App, root *cobra.Command) {
	width := HelpWidth
	if app.Width > 0 {
		width = min(app.Width, WidestHelp)
	}
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		_, _ = io.WriteString(c.OutOrStdout(), helpText(c, width)) // a pipe that was closed has read enough
	})
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := io.WriteString(c.OutOrStderr(), helpText(c, width))
		return err
	})
}

func helpText(c *cobra.Command, width int) string {
	var b strings.Builder
	part := func(title, text string) {
		if text = strings.TrimRight(text, " \n"); text != "" {
			fmt.Fprintf(&b, "\n%s:\n%s\n", title, text)
		}
	}
	long := c.Long
	if long == "" {
		long = c.Short
	}
	b.WriteString(fold(strings.TrimRight(long, " \n"), width))
	if c.IsAdditionalHelpTopicCommand() {
		return b.String()
	}
	usage := "  " + c.UseLine() + "\n"
	if c.HasAvailableSubCommands() {
		if !hasFlags(c) { // it does nothing by itself
			usage = ""
		}
		usage += "  " + c.CommandPath() + " COMMAND"
	}
	part("Usage", fold(usage, width))
	if len(c.Aliases) > 0 {
		part("Aliases", "  "+c.NameAndAliases())
	}
	part("Examples", c.Example) // to be copied: not folded
	for _, group := range c.Groups() {
		part(strings.TrimSuffix(group.Title, ":"), fold(listed(c, group.ID, isCommand), width))
	}
	part("Commands", fold(listed(c, "", isCommand), width))
	part("Flags", fold(c.LocalNonPersistentFlags().FlagUsages(), width))
	part("More help", fold(listed(c, "", (*cobra.Command).IsAdditionalHelpTopicCommand), width))
	last := "outboxctl options lists the flags that every command has."
	if c.HasAvailableSubCommands() {
		last = c.CommandPath() + " COMMAND --help shows the help of a command. " + last
	}
	return b.String() + "\n" + fold(last, width)
}

// hasFlags reports whether a command has flags of its own besides those for help and version.
func hasFlags(c *cobra.Command) (found bool) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		found = found || f.Name != "help" && f.Name != "version"
	})
	return found
}

func isCommand(c *cobra.Command) bool { return c.IsAvailableCommand() || c.Name() == "help" }

// listed are the subcommands of a group, each with what it does.
func listed(c *cobra.Command, group string, shown func(*cobra.Command) bool) string {
	var b strings.Builder
	for _, sub := range c.Commands() {
		if sub.GroupID == group && shown(sub) {
			fmt.Fprintf(&b, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	return b.String()
}

// fold breaks text into lines of at most width. Paragraphs are filled; a line that begins with a
// blank stays one, and goes on below its second column.
func fold(text string, width int) string {
	var b strings.Builder
	var paragraph []string
	end := func() {
		if paragraph != nil {
			b.WriteString(Fill(strings.Fields(strings.Join(paragraph, " ")), 0, 0, width) + "\n")
			paragraph = nil
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		b.WriteString(foldLine(line, width))
	}
	end()
	return b.String()
}

// foldLine breaks an indented line.
func foldLine(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line + "\n"
	}
	rest := strings.TrimLeft(line, " ")
	column := len(line) - len(rest)
	head := line[:column]
	if name, says, columns := strings.Cut(rest, "  "); columns {
		rest = strings.TrimLeft(says, " ")
		head, column = line[:len(line)-len(rest)], len(line)-len(rest)
		if column > width/2 { // what it says begins below its name
			head, column = strings.Repeat(" ", strings.Index(line, name))+name+"\n          ", 10
		}
	}
	return head + Fill(strings.Fields(rest), column, column, width) + "\n"
}
