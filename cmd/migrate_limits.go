package cmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/migrate"
)

// migrateLimits bound how long a migration waits, and how long others wait for it.
type migrateLimits struct {
	lockTimeout, retryFor, wait time.Duration
}

func (l *migrateLimits) addFlags(cmd *cobra.Command) {
	addLimit(cmd, &l.lockTimeout, "lock-timeout", migrate.DefaultLockTimeout, time.Millisecond,
		"give a table up after waiting this long for its lock, and try again later")
	addLimit(cmd, &l.retryFor, "retry-for", migrate.DefaultRetryFor, 0,
		"how long to try one migration again while others hold its locks")
	addLimit(cmd, &l.wait, "wait", migrate.DefaultWait, 0,
		"how long to wait for another migration to finish")
}

// options turns the flags into the runner's options: there zero means the default, here it means not at all.
func (l *migrateLimits) options(app *App) migrate.Options {
	never := func(d time.Duration) time.Duration {
		if d == 0 {
			return -1
		}
		return d
	}
	return migrate.Options{
		LockTimeout: l.lockTimeout,
		RetryFor:    never(l.retryFor),
		Wait:        never(l.wait),
		Progress:    func(message string) { fmt.Fprintln(app.Err, message) },
	}
}

// limitFlag is a duration with a default and a lower bound.
type limitFlag struct {
	value *time.Duration
	least time.Duration
}

func addLimit(cmd *cobra.Command, value *time.Duration, name string, def, least time.Duration, usage string) {
	*value = def
	cmd.Flags().Var(&limitFlag{value, least}, name, usage)
}

func (f *limitFlag) String() string { return f.value.String() }
func (f *limitFlag) Type() string   { return "duration" }

func (f *limitFlag) Set(text string) error {
	d, err := parseDuration(text)
	if err != nil {
		return err
	}
	if d < f.least {
		return fmt.Errorf("%s is less than %s", text, f.least)
	}
	*f.value = d
	return nil
}
