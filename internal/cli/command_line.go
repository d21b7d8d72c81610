package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// CommandLine writes the command that is running as it could be typed again, with some flags
// changed (an empty value leaves a flag out). The flags of every command are repeated, or it could
// act on another database; connection strings are not, since they may hold a password.
func CommandLine(cmd *cobra.Command, args []string, set map[string]string) string {
	words := []string{cmd.CommandPath()}
	for _, arg := range args {
		words = append(words, safetext.QuoteWord(arg))
	}
	secret := map[string]bool{}
	for _, k := range Settings() {
		secret[k.Flag] = secret[k.Flag] || k.Secret
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, changed := set[f.Name]
		switch {
		case secret[f.Name]:
		case changed && value != "":
			words = append(words, "--"+f.Name+" "+safetext.QuoteWord(value))
		case changed || !f.Changed:
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name+map[bool]string{true: "", false: "=false"}[f.Value.String() == "true"])
		default:
			values := []string{f.Value.String()}
			if list, ok := f.Value.(pflag.SliceValue); ok {
				values = list.GetSlice()
			}
			for _, v := range values {
				words = append(words, "--"+f.Name+" "+safetext.QuoteWord(v))
			}
		}
	})
	return strings.Join(words, " ")
}
