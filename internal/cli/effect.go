package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// An Effect is what a command does to the database, the broker and the Redis that are configured.
type Effect struct {
	// Writes: it changes something there, or may.
	Writes bool
	// Unless are the flags with which it only looks, and With the only ones with which it writes, if
	// there are any.
	Unless, With []string
}

// RefuseReadOnly refuses a command that would write to a context that is read-only.
func (a *App) RefuseReadOnly(cmd *cobra.Command, e Effect) error {
	on := func(flag string) bool {
		text, given := a.Flag(flag)
		return given && text != "" && text != "false"
	}
	if !e.Writes || slices.ContainsFunc(e.Unless, on) || len(e.With) > 0 &&
		!slices.ContainsFunc(e.With, on) {
		return nil
	}
	for _, name := range a.Several() {
		if err := a.InContext(name).RefuseReadOnly(cmd, e); err != nil {
			return err
		}
	}
	if !a.load().ReadOnly() {
		return nil
	}
	look := ""
	if len(e.Unless) > 0 {
		look = "; --" + e.Unless[0] + " changes nothing and works here too"
	}
	name := a.cfg.Context.Name
	return fault.Hint(fault.Refusedf("context %s is read-only, and %s would change what it names", name, cmd.CommandPath()),
		"choose another with --%s, or remove %s.%s.%s in %s%s", FlagContext, keyContexts, name, keyReadOnly, a.cfg.File, look)
}
