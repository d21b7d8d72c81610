package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// flagValue is a flag's value that functions read and show.
type flagValue struct {
	kind string
	show func() string
	read func(text string) error
}

func (f *flagValue) Type() string          { return f.kind }
func (f *flagValue) String() string        { return f.show() }
func (f *flagValue) Set(text string) error { return f.read(text) }

// choiceFlag is a flag with a few values.
type choiceFlag struct {
	flagValue
	choices []string
}

// Choices are its values, for the shell to suggest.
func (f *choiceFlag) Choices() []string { return f.choices }

// AddChoice adds a flag that takes one of a few values. What at holds is its default.
func AddChoice(flags *pflag.FlagSet, at *string, name, help string, choices ...string) {
	value := flagValue{"choice", func() string { return *at },
		func(text string) error { return choose(at, text, choices) }}
	flags.Var(&choiceFlag{value, choices}, name, help+": "+strings.Join(choices, ", "))
}

// choose takes a text that is one of a few.
func choose(at *string, text string, choices []string) error {
	if !slices.Contains(choices, text) {
		return words.DidYouMean(fmt.Errorf("%q is none of %s", text, strings.Join(choices, ", ")), text, choices, "")
	}
	*at = text
	return nil
}

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
	if err == nil && d < 0 {
		err = errors.New("must not be negative")
	}
	if err == nil {
		f.Value = &d
	}
	return err
}

// AddLimit gives a command a duration flag with a default and a lower bound.
func AddLimit(cmd *cobra.Command, value *time.Duration, name string, def, least time.Duration,
	usage string) {
	*value = def
	show := func() string {
		if *value == 0 {
			return "0" // help shows no default that is 0, but would show 0s
		}
		return value.String()
	}
	cmd.Flags().Var(&flagValue{"duration", show, func(text string) error {
		d, err := words.ParseDuration(text)
		if err == nil && d < least {
			err = fmt.Errorf("%s is less than %s", text, least)
		}
		if err == nil {
			*value = d
		}
		return err
	}}, name, usage)
}

// RateFlag is a number of rows per second: 200, 200/s, 30/m.
type RateFlag float64

// Type implements pflag.Value.
func (f *RateFlag) Type() string { return "rate" }

func (f *RateFlag) String() string {
	if *f == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*f), 'g', -1, 64) + "/s"
}

// Set implements pflag.Value.
func (f *RateFlag) Set(text string) (err error) {
	*(*float64)(f), err = words.ParseRate(text)
	return err
}

// ShareFlag is a share: 5% or 0.05.
type ShareFlag struct {
	Share float64
	Given bool
}

// Type implements pflag.Value.
func (f *ShareFlag) Type() string { return "percent" }

func (f *ShareFlag) String() string {
	return strconv.FormatFloat(f.Share*100, 'g', -1, 64) + "%"
}

// Set implements pflag.Value.
func (f *ShareFlag) Set(text string) (err error) {
	f.Given = true
	f.Share, err = words.ParseShare(text)
	return err
}

// DefaultLimit is how many rows a list shows when none was asked for.
const DefaultLimit = 50

// AddPageFlags gives a list --limit and --cursor. row names what the cursor is of.
func AddPageFlags(cmd *cobra.Command, p *outbox.Page, row string) {
	cmd.Flags().IntVar(&p.Limit, "limit", DefaultLimit, "how many rows to show; 0 shows all")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "start after the "+row)
}

// AuditFlags is who does something and why, for the audit row.
type AuditFlags struct{ Actor, Note string }

// AddAuditFlags gives a command that changes something --actor and --note.
func AddAuditFlags(cmd *cobra.Command, f *AuditFlags) {
	AddActorFlag(cmd, f)
	cmd.Flags().StringVarP(&f.Note, "note", "m", "", "why, for the audit trail")
}

// AddActorFlag gives a command --actor alone: what it does was explained before, by another
// command.
func AddActorFlag(cmd *cobra.Command, f *AuditFlags) {
	cmd.Flags().StringVar(&f.Actor, "actor", "",
		"who does this, for the audit trail (default $OUTBOXCTL_ACTOR, then user@host)")
}

// Actor names the person or job behind the command.
func (a *App) Actor(f AuditFlags) string {
	name := cmp.Or(a.env["USER"], a.env["LOGNAME"])
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return cmp.Or(f.Actor, a.env["OUTBOXCTL_ACTOR"], cmp.Or(name, "unknown")+"@"+host)
}
