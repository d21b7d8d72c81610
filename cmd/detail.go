package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/why"
	"github.com/outboxctl/outboxctl/internal/words"
)

// stateStyle is the colour of what has a state: what is done, what is going wrong, and what needs
// no look.
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

// detailFlags are those of dlq show and event show.
type detailFlags struct {
	payload   string
	consumers []string
}

// detailing completes a command that shows everything about what its argument names.
func detailing[T any](app *cli.App, cmd *cobra.Command, read func(context.Context, *dlq.Outbox, why.DetailParams) (T, error),
	show func(*cli.Page, T, string) error) *cobra.Command {
	var f detailFlags
	cli.AddChoice(cmd.Flags(), &f.payload, "payload", "show what the event carries", "pretty", "raw")
	cmd.Flags().StringSliceVar(&f.consumers, "consumers", nil, "ask about these consumers (default: those that Redis or the inbox knows)")
	return showing(app, cmd, func(ctx context.Context, args []string) (found T, err error) {
		params := why.DetailParams{ID: args[0], Payload: f.payload != "", Consumers: f.consumers}
		if err := params.Check(); err != nil {
			return found, err
		}
		box, err := app.Outbox(ctx)
		if err != nil {
			return found, err
		}
		return read(ctx, box, params)
	}, func(w io.Writer, found T) error { return show(app.Page(w), found, f.payload) })
}

// printEvent prints an event's row.
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
