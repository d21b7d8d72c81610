package cmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/migrate"
)

// migrateLimits bound how long a migration waits, and how long others wait for it.
type migrateLimits struct {
	lockTimeout, retryFor, wait time.Duration
}

func (l *migrateLimits) addFlags(cmd *cobra.Command) {
	cli.AddLimit(cmd, &l.lockTimeout, "lock-timeout", migrate.DefaultLockTimeout, time.Millisecond,
		"stop waiting for a table lock after this long, and retry later")
	cli.AddLimit(cmd, &l.retryFor, "retry-for", migrate.DefaultRetryFor, 0,
		"how long to try one migration again while others hold its locks")
	cli.AddLimit(cmd, &l.wait, "wait", migrate.DefaultWait, 0,
		"how long to wait for another migration to finish")
}

// options turns the flags into the runner's options: there zero means the default, here it means
// not at all.
func (l *migrateLimits) options(app *cli.App) migrate.Options {
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
