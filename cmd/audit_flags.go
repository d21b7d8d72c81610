package cmd

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"
)

// auditFlags is who does something and why, for the audit row.
type auditFlags struct{ actor, reason string }

// addAuditFlags gives a command that changes something --actor and --reason.
func addAuditFlags(cmd *cobra.Command, f *auditFlags) {
	cmd.Flags().StringVar(&f.actor, "actor", "", "who does this, for the audit trail (default $OUTBOXCTL_ACTOR, then user@host)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the audit trail")
}

// actor names the person or job behind the command.
func (a *App) actor(f auditFlags) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return cmp.Or(f.actor, a.env["OUTBOXCTL_ACTOR"], cmp.Or(a.env["USER"], a.env["LOGNAME"], "unknown")+"@"+host)
}
