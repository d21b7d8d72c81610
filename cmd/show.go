package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/why"
	"github.com/outboxctl/outboxctl/internal/words"
)

// stateStyle is the colour of what has a state.
func stateStyle(state string) cli.Style {
	switch state {
	case outbox.StatusPublished, dlq.StateReplayed, dlq.PlanDone:
		return cli.StyleGood
	case outbox.StatusDead, broker.TopicMissing, broker.TopicRefused:
		return cli.StyleError
	case dlq.BecameFailing, dlq.PlanStopped, dlq.PlanInterrupted:
		return cli.StyleWarn
	case dlq.StateDiscarded:
		return cli.StyleFaint
	default:
		return ""
	}
}

// detailing completes a command that shows everything about what its argument names.
func detailing[T any](app *cli.App, cmd *cobra.Command, read func(context.Context, *dlq.Outbox, why.DetailParams) (T, error),
	show func(*cli.Page, T, string)) *cobra.Command {
	var payload string
	var consumers []string
	cli.AddChoice(cmd.Flags(), &payload, "payload", "show what the event carries", "pretty", "raw")
	cmd.Flags().StringSliceVar(&consumers, "consumers", nil, "ask about these consumers (default: those that Redis or the inbox knows)")
	return showing(app, cmd, func(ctx context.Context, args []string) (found T, err error) {
		params := why.DetailParams{ID: args[0], Payload: payload != "", Consumers: consumers}
		if err := params.Check(); err != nil {
			return found, err
		}
		box, err := app.Outbox(ctx)
		if err != nil {
			return found, err
		}
		return read(ctx, box, params)
	}, func(p *cli.Page, found T) { show(p, found, payload) })
}

func printEvent(p *cli.Page, e outbox.Event) {
	p.Field("status", e.Status)
	p.Field("emitted", p.Time(&e.CreatedAt))
	p.Field("published", p.Time(e.PublishedAt))
	p.Field("message id", cli.Text(e.BrokerMessageID))
	p.Field("dead", p.Time(e.DeadAt))
	p.Field("erased", p.Time(e.ErasedAt))
	p.Field("attempts", fmt.Sprint(e.AttemptCount))
	p.Field("last error", cli.Text(e.LastError))
	switch e.Status {
	case outbox.StatusScheduled:
		p.Field("scheduled", p.Time(e.DeliverAt))
	case outbox.StatusPending:
		p.Field("next attempt", p.Time(&e.NextAttemptAt))
	case outbox.StatusProcessing:
		p.Field("leased by", cli.Text(e.LockedBy)+" until "+p.Time(e.LockedUntil))
	}
	p.Field("dedupe key", cli.Text(e.DedupeKey))
	p.Field("ordering key", cli.Text(e.OrderingKey))
}

// printSurroundings prints what belongs to an event.
func printSurroundings(p *cli.Page, s why.Surroundings) {
	p.Title("history")
	for _, step := range s.History {
		text := p.Time(&step.At) + "  " + step.What
		if step.Actor != "" {
			text += " by " + step.Actor
		}
		if step.Note != "" {
			text += ": " + step.Note
		}
		if step.Detail != "" {
			text += ": " + step.Detail
		}
		p.Line(text)
	}
	if len(s.Neighbours) > 0 {
		p.Title("other events of the aggregate")
		for _, e := range s.Neighbours {
			p.Line(strings.Join([]string{p.Time(&e.CreatedAt), e.ID, e.EventType, e.Status}, "  "))
		}
	}
	p.Title("consumers")
	switch {
	case s.ConsumersError != "":
		p.Line("what they know could not be read: " + s.ConsumersError)
	case len(s.Consumers) == 0:
		p.Line("none is known; name some with --consumers")
	}
	for _, m := range s.Consumers {
		text := m.Consumer + "  " + m.State + p.Since(m.Since)
		if m.InboxAt != nil {
			text += ", in its inbox" + p.Since(m.InboxAt)
		}
		p.Line(text)
	}
	for _, f := range s.Failures {
		p.Line(fmt.Sprintf("%s  %s after %s%s: %s", f.Consumer, strings.ReplaceAll(f.State, "_", " "), words.Counted(int64(f.Attempts), "attempt"), p.Since(&f.LastAt), f.LastError))
	}
}

func newEventShowCmd(app *cli.App) *cobra.Command {
	return detailing(app, &cobra.Command{
		Use:   "show ID",
		Args:  cobra.ExactArgs(1),
		Short: "Show one event, its history and its surroundings",
		Long: `Show an event's row, what has happened to it, the events of the same aggregate around
it, and what each consumer remembers of it. ID is the event's or that of one of its dead letters.
What the event carries is shown only when asked for with --payload.`,
		Example:           "  outboxctl event show 01890a5d-ac96-774b-bcce-b302099a8057 --payload pretty",
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteEventIDs(app, "")),
	}, why.Event, printEventDetail)
}

func printEventDetail(p *cli.Page, d why.EventDetail, payload string) {
	p.Title("event " + d.ID)
	p.Field("type", d.EventType)
	p.Field("aggregate", d.AggregateType+"/"+d.AggregateID)
	p.Field("namespace", d.Namespace)
	p.Field("tenant", cli.Text(d.TenantID))
	p.Field("trace", cli.Text(d.TraceID))
	printEvent(p, d.Event)
	printSurroundings(p, d.Surroundings)
	p.Payload(payload, d.Payload, d.Headers)
}

func newDLQShowCmd(app *cli.App) *cobra.Command {
	return detailing(app, &cobra.Command{
		Use:   "show ID",
		Args:  cobra.ExactArgs(1),
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

func printDeadLetter(p *cli.Page, d why.DeadLetterDetail, payload string) {
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
	p.Payload(payload, d.Payload, d.Headers)
}
