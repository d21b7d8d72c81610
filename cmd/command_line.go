package cmd

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// plainWord needs no quotes in any shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// commandLine writes the command that is running as it could be typed again, with some flags set anew (an empty value
// leaves a flag out). Flags that belong to every command are not repeated: a connection string may hold a password.
func commandLine(cmd *cobra.Command, args []string, set map[string]string) string {
	words := []string{cmd.CommandPath()}
	for _, arg := range args {
		words = append(words, quoteWord(arg))
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		value, changed := set[f.Name]
		switch {
		case changed && value != "":
			words = append(words, "--"+f.Name+" "+quoteWord(value))
		case changed || !f.Changed:
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name+map[bool]string{true: "", false: "=false"}[f.Value.String() == "true"])
		default:
			values := []string{f.Value.String()}
			if list, ok := f.Value.(pflag.SliceValue); ok {
				values = list.GetSlice()
			}
			for _, v := range values {
				words = append(words, "--"+f.Name+" "+quoteWord(v))
			}
		}
	})
	return strings.Join(words, " ")
}

func quoteWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
