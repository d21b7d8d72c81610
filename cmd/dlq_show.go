package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/why"
)

func newDLQShowCmd(app *cli.App) *cobra.Command {
	return detailing(app, &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter with everything needed to decide about it",
		Long: `Show a dead letter: the failure, what has happened to the event so far and who did
it, the event's row as it is now, the events of the same aggregate around it, and what each consumer
remembers of it. ID is the dead letter's or the event's; an event with several deaths shows the
newest open one.

The payload is shown only with --payload.`,
		Example:           "  outboxctl dlq show 01890a5d-ac96-774b-bcce-b302099a8057\n  outboxctl dlq show 01890a5d-ac96-774b-bcce-b302099a8057 --payload pretty",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteDLQIDs(app, "")),
	}, why.DeadLetter, printDeadLetter)
}

func printDeadLetter(p *cli.Page, d why.DeadLetterDetail, payload string) error {
	p.Title("dead letter " + d.ID)
	p.Field("event", d.EventID)
	p.Field("type", d.EventType)
	p.Field("aggregate", d.AggregateType+"/"+d.AggregateID)
	p.Field("topic", cli.Text(d.Topic))
	p.Field("namespace", d.Namespace)
	p.Field("tenant", cli.Text(d.TenantID))
	p.Field("state", d.State+p.Since(d.StateChangedAt))
	p.Field("corrected by", cli.Text(d.CorrectedBy))
	p.Field("erased", p.Time(d.ErasedAt))
	p.Field("failed", p.Time(&d.FailedAt))
	p.Field("reason", d.Reason)
	p.Field("attempts", fmt.Sprint(d.AttemptCount))
	p.Field("error", d.ErrorMessage)
	p.Field("fingerprint", cli.Text(d.Fingerprint))
	p.Field("ordering key", cli.Text(d.OrderingKey))
	if d.Blocks > 0 {
		p.Field("blocks", blocks(d.Blocks)+" of its key that wait for it")
	}
	p.Title("event")
	if d.Event == nil {
		text := "its row is gone: removed by cleanup. It cannot be replayed"
		if d.ErasedAt == nil {
			text += "; outboxctl dlq export makes a new event of it"
		}
		p.Line(text + ".")
	} else {
		printEvent(p, *d.Event)
	}
	printSurroundings(p, d.Surroundings)
	return p.Payload(payload, d.Payload, d.Headers)
}
