package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/why"
)

func newEventShowCmd(app *cli.App) *cobra.Command {
	return detailing(app, &cobra.Command{
		Use:   "show ID",
		Short: "Show one event, its history and its surroundings",
		Long: `Show an event's row, what has happened to it, the events of the same aggregate around
it, and what each consumer remembers of it. ID is the event's or that of one of its dead letters.
What the event carries is shown only when asked for with --payload.`,
		Example:           "  outboxctl event show 01890a5d-ac96-774b-bcce-b302099a8057 --payload pretty",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteEventIDs(app, "")),
	}, why.Event, printEventDetail)
}

func printEventDetail(p *cli.Page, d why.EventDetail, payload string) error {
	p.Title("event " + d.ID)
	p.Field("type", d.EventType)
	p.Field("aggregate", d.AggregateType+"/"+d.AggregateID)
	p.Field("namespace", d.Namespace)
	p.Field("tenant", cli.Text(d.TenantID))
	p.Field("trace", cli.Text(d.TraceID))
	printEvent(p, d.Event)
	printSurroundings(p, d.Surroundings)
	return p.Payload(payload, d.Payload, d.Headers)
}
