package cmd

import (
	"cmp"
	"os"
	"os/user"

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
	return cmp.Or(f.actor, a.env["OUTBOXCTL_ACTOR"], loginName(a.env)+"@"+hostName())
}

func loginName(env map[string]string) string {
	if name := cmp.Or(env["USER"], env["LOGNAME"]); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

func hostName() string {
	if host, err := os.Hostname(); err == nil {
		return host
	}
	return "unknown-host"
}
