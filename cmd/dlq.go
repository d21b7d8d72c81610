package cmd

import (
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
)

func newDLQCmd(app *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Find, understand and fix events that could not be published",
		Long: `Work with dead letters: events the publisher gave up on. Each death is one dead letter; an event that is replayed and
dies again has two. Wherever an id is asked for, it may be the dead letter's or the event's.`,
	}
	cmd.AddCommand(
		newDLQListCmd(app, runDLQList),
		newDLQShowCmd(app, runDLQShow),
		newDLQReplayCmd(app),
		newDLQDiscardCmd(app),
		newDLQRestoreCmd(app),
		newDLQExportCmd(app, runDLQExport),
		newDLQAuditCmd(app, runDLQAudit),
	)
	return cmd
}

// checkID accepts what PostgreSQL would, in the form everybody writes.
func checkID(text string) (string, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return "", fault.Usagef("%q is not an id: an id looks like 01890a5d-ac96-774b-bcce-b302099a8057", text)
	}
	return id.String(), nil
}
