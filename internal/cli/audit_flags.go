package cli

import (
	"cmp"
	"os"
	"os/user"

	"github.com/spf13/cobra"
)

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
	return cmp.Or(f.Actor, a.env["OUTBOXCTL_ACTOR"], loginName(a.env)+"@"+hostName())
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
