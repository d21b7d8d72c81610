package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/words"
)

// DurationFlag is an optional duration in the units people use for retention: 30d, 2w, 12h.
type DurationFlag struct{ Value *time.Duration }

// Type implements pflag.Value.
func (f *DurationFlag) Type() string { return "duration" }

func (f *DurationFlag) String() string {
	if f.Value == nil {
		return ""
	}
	return f.Value.String()
}

// Set implements pflag.Value.
func (f *DurationFlag) Set(text string) error {
	d, err := words.ParseDuration(text)
	if err != nil {
		return err
	}
	if d < 0 {
		return errors.New("must not be negative")
	}
	f.Value = &d
	return nil
}

// limitFlag is a duration with a default and a lower bound.
type limitFlag struct {
	value *time.Duration
	least time.Duration
}

// AddLimit gives a command a duration flag with a default and a lower bound.
func AddLimit(cmd *cobra.Command, value *time.Duration, name string, def, least time.Duration,
	usage string) {
	*value = def
	cmd.Flags().Var(&limitFlag{value, least}, name, usage)
}

func (f *limitFlag) Type() string { return "duration" }

func (f *limitFlag) String() string {
	if *f.value == 0 {
		return "0" // help shows no default that is 0, but would show 0s
	}
	return f.value.String()
}

func (f *limitFlag) Set(text string) error {
	d, err := words.ParseDuration(text)
	if err != nil {
		return err
	}
	if d < f.least {
		return fmt.Errorf("%s is less than %s", text, f.least)
	}
	*f.value = d
	return nil
}
