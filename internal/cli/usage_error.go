package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// UnknownCommand refuses a command that does not exist, and names the one that was most likely
// meant.
func UnknownCommand(cmd *cobra.Command, given []string) error {
	name := given[0]
	err := fault.Usagef("%s has no command %q", cmd.CommandPath(), name)
	if similar := cmd.SuggestionsFor(name); name != "" && len(similar) > 0 {
		if i := slices.Index(similar, catalogue.Nearest(name, similar)); i > 0 {
			similar[0], similar[i] = similar[i], similar[0]
		}
		for i, word := range similar {
			similar[i] = withSubcommands(cmd, word, given[1:])
		}
		return fault.Hint(err, "did you mean %s?", strings.Join(similar, " or "))
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fault.Hint(err, "%s --help lists the commands: %s", cmd.CommandPath(),
		strings.Join(names, ", "))
}

// withSubcommands is the name of a command with those of the words given after it that are its
// subcommands.
func withSubcommands(cmd *cobra.Command, name string, given []string) string {
	for {
		at := slices.IndexFunc(cmd.Commands(),
			func(c *cobra.Command) bool { return c.Name() == name[strings.LastIndex(name, " ")+1:] })
		if at < 0 || len(given) == 0 {
			return name
		}
		cmd = cmd.Commands()[at]
		if !slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == given[0] }) {
			return name
		}
		name, given = name+" "+given[0], given[1:]
	}
}

// HelpArgs refuses a command that does not exist; cobra would show help for what it found of it.
func HelpArgs(cmd *cobra.Command, given []string) error {
	found, left, err := cmd.Root().Find(given)
	switch {
	case err != nil || found == cmd.Root() && len(given) > 0:
		return UnknownCommand(cmd.Root(), given)
	case len(left) > 0 && found.HasSubCommands():
		return UnknownCommand(found, left)
	case len(left) > 0:
		return fault.Hint(fault.Usagef("%s has no commands, so there is no help on %q",
			found.CommandPath(), left[0]), "%s --help", found.CommandPath())
	}
	return nil
}

// argsOf reads the arguments that a command takes from its usage line: the names of those that it
// must have, and whether it takes any number of others.
func argsOf(cmd *cobra.Command) (takes []string, more bool) {
	words := strings.Fields(cmd.Use)
	for i, word := range words[1:] {
		ofFlag := strings.HasPrefix(strings.TrimLeft(words[i], "("), "--")
		isName := strings.ToUpper(word) == word || strings.Contains(word, "|")
		if isName && strings.Trim(word, "-|[") == word && !ofFlag {
			takes = append(takes, word)
		}
		more = more || strings.HasSuffix(word, "...")
	}
	return takes, more
}

// UsedArgs takes the arguments that the command's usage line names.
func UsedArgs(cmd *cobra.Command, given []string) error {
	takes, more := argsOf(cmd)
	if len(given) < len(takes) || len(given) > len(takes) && !more {
		return ArgsError(cmd, given)
	}
	return nil
}

// ArgsError names the argument that is missing or too much.
func ArgsError(cmd *cobra.Command, given []string) error {
	takes, _ := argsOf(cmd)
	if len(given) < len(takes) {
		return fmt.Errorf("%s is missing", takes[len(given)])
	}
	return fmt.Errorf("unexpected argument %q", given[min(len(takes), len(given)-1)])
}

// similarFlag is the flag that an unknown one was most likely meant to be; empty when none is
// close.
func similarFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return catalogue.Nearest(unknown.GetSpecifiedName(), names)
}

// FlagError puts what the flag library found into the words of the other errors, and adds a hint to
// what wrong makes of that.
func FlagError(c *cobra.Command, err error, wrong func(error) error) error {
	hint := c.CommandPath() + " --help lists the flags"
	if similar := similarFlag(c, err); similar != "" {
		hint = "did you mean --" + similar + "?"
	} else if better := fault.HintOf(err); better != "" {
		hint = better
	}
	return fault.Hint(wrong(flagError(err)), "%s", hint)
}

func flagError(err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		number  *strconv.NumError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		return fmt.Errorf("unknown flag --%s", unknown.GetSpecifiedName())
	case errors.As(err, &missing):
		return fmt.Errorf("--%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &invalid) && errors.As(err, &number) && number.Func == "ParseBool":
		return fmt.Errorf("--%s: %q is neither true nor false", invalid.GetFlag().Name,
			invalid.GetValue())
	case errors.As(err, &invalid) && errors.As(err, &number) && !errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("--%s: %q is not a number", invalid.GetFlag().Name, invalid.GetValue())
	case errors.As(err, &invalid) && errors.As(err, &number):
		return fmt.Errorf("--%s: %q is too large", invalid.GetFlag().Name, invalid.GetValue())
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
	default:
		return err
	}
}
