package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/outboxctl/outboxctl/internal/words"
)

// choiceFlag is a flag with a few values.
type choiceFlag struct {
	at      *string
	choices []string
}

// AddChoice adds a flag that takes one of a few values. What at holds is its default.
func AddChoice(flags *pflag.FlagSet, at *string, name, help string, choices ...string) {
	flags.Var(&choiceFlag{at, choices}, name, help+": "+strings.Join(choices, ", "))
}

func (f *choiceFlag) String() string    { return *f.at }
func (f *choiceFlag) Type() string      { return "choice" }
func (f *choiceFlag) Choices() []string { return f.choices }

func (f *choiceFlag) Set(text string) error {
	if !slices.Contains(f.choices, text) {
		return words.DidYouMean(fmt.Errorf("%q is none of %s", text, strings.Join(f.choices, ", ")), text, f.choices, "")
	}
	*f.at = text
	return nil
}
