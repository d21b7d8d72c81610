package cmd

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
)

type eventShowOptions struct {
	app *cli.App

	id        string
	payload   string
	consumers []string
	output    cli.OutputFlag
}

func newEventShowCmd(app *cli.App, run func(context.Context, *eventShowOptions) error) *cobra.Command {
	opts := &eventShowOptions{app: app}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one event, its history and its surroundings",
		Long: `Show an event's row, what has happened to it, the events of the same aggregate around it, and what each consumer's
store in Redis says about it. ID is the event's or that of one of its dead letters. What the event carries is shown only
when asked for with --payload.`,
		Example: "  outboxctl event show 01890a5d-ac96-774b-bcce-b302099a8057 --payload pretty",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.id = args[0]
			return run(cmd.Context(), opts)
		},
		ValidArgsFunction: onlyFirst(cli.CompleteEventIDs(app, "")),
	}
	addShowFlags(cmd, &opts.payload, &opts.consumers)
	cli.AddOutputFlag(cmd, &opts.output, cli.ObjectFormats()...)
	return cmd
}

// eventReport is an event with what surrounds it. The event's own fields come first; the copy of them that a dead letter
// has beside its own is left out.
type eventReport struct {
	dlq.Event
	eventDetail
	Nothing *struct{} `json:"event,omitempty"`
}

func runEventShow(ctx context.Context, opts *eventShowOptions) error {
	id, err := operate.ParseID(opts.id)
	if err != nil {
		return err
	}
	if err := checkPayloadFlag(opts.payload); err != nil {
		return err
	}
	store, err := opts.app.Store(ctx)
	if err != nil {
		return err
	}
	eventID, err := store.EventID(ctx, id)
	if err != nil {
		return operate.StoreError(err)
	}
	event, err := store.Event(ctx, eventID)
	if errors.Is(err, dlq.ErrNotFound) {
		return fault.Hint(fault.NotFoundf("no event %s", eventID), "outboxctl why %s tells what is known about it", eventID)
	}
	if err != nil {
		return operate.StoreError(err)
	}
	report := eventReport{Event: event}
	ref := eventRef{event.ID, event.AggregateType, event.AggregateID, event.CreatedAt}
	if err := describeEvent(opts.app, ctx, store, ref, opts.consumers, &report.eventDetail); err != nil {
		return err
	}
	if opts.payload != "" {
		content, err := store.EventContent(ctx, event.ID)
		if err != nil {
			return operate.StoreError(err)
		}
		report.Payload, report.Headers = content.Payload, content.Headers
	}
	return cli.WriteObject(opts.app, opts.output.Format, report, func(w io.Writer) error {
		p := opts.app.Page(w)
		p.Title("event " + event.ID)
		p.Field("type", event.EventType)
		p.Field("aggregate", event.AggregateType+"/"+event.AggregateID)
		p.Field("namespace", event.Namespace)
		p.Field("tenant", deref(event.TenantID))
		sayEvent(p, event)
		sayEventDetail(p, report.eventDetail)
		return p.Payload(opts.payload, report.Payload, report.Headers)
	})
}
