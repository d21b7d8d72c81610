package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// How a payload is shown, when it is.
const (
	payloadPretty = "pretty"
	payloadRaw    = "raw"
)

// PayloadFlag is the --payload of a command: how to show what an event carries; empty does not show
// it.
type PayloadFlag struct{ How string }

func (f *PayloadFlag) String() string { return f.How }

// Type implements pflag.Value.
func (f *PayloadFlag) Type() string { return "string" }

// Choices are the ways there are.
func (f *PayloadFlag) Choices() []string { return []string{payloadPretty, payloadRaw} }

// Set implements pflag.Value.
func (f *PayloadFlag) Set(text string) error {
	if text != payloadPretty && text != payloadRaw {
		return fmt.Errorf("%q is neither pretty nor raw", text)
	}
	f.How = text
	return nil
}

// AddPayloadFlag gives a command --payload.
func AddPayloadFlag(cmd *cobra.Command, f *PayloadFlag) {
	cmd.Flags().Var(f, "payload", "show what the event carries: pretty or raw")
}
