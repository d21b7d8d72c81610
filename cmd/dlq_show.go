package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// neighbours is how many events of the aggregate are shown on either side.
const neighbours = 5

type dlqShowOptions struct {
	app *cli.App

	id        string
	payload   string
	consumers []string
	output    cli.OutputFlag
}

// dlqDetail is all that is known about a dead letter.
type dlqDetail struct {
	dlq.Entry
	eventDetail
}

// eventDetail is what is known about the event behind it.
type eventDetail struct {
	Event          *dlq.Event      `json:"event"`
	History        []dlq.Step      `json:"history"`
	Neighbours     []dlq.Event     `json:"neighbours"`
	Consumers      []dlq.Mark      `json:"consumers"`
	ConsumersError string          `json:"consumersError,omitempty"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	Headers        json.RawMessage `json:"headers,omitempty"`
}

func newDLQShowCmd(app *cli.App, run func(context.Context, *dlqShowOptions) error) *cobra.Command {
	opts := &dlqShowOptions{app: app}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter with everything needed to decide about it",
		Long: `Show a dead letter: the failure, what has happened to the event so far and who did it, the event's row as it is now,
the events of the same aggregate around it, and what each consumer's store in Redis says about it. ID is the dead
letter's or the event's; an event with several deaths shows the newest open one.

What the event carries is shown only when asked for with --payload.`,
		Example: "  outboxctl dlq show 01890a5d-ac96-774b-bcce-b302099a8057\n  outboxctl dlq show 01890a5d-ac96-774b-bcce-b302099a8057 --payload pretty",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.id = args[0]
			return run(cmd.Context(), opts)
		},
		ValidArgsFunction: onlyFirst(cli.CompleteDLQIDs(app, "")),
	}
	addShowFlags(cmd, &opts.payload, &opts.consumers)
	cli.AddOutputFlag(cmd, &opts.output, cli.ObjectFormats()...)
	return cmd
}

func addShowFlags(cmd *cobra.Command, payload *string, consumers *[]string) {
	cmd.Flags().StringVar(payload, "payload", "", "show what the event carries: pretty or raw")
	cmd.Flags().StringSliceVar(consumers, "consumers", nil, "ask about these consumers (default: those Redis knows)")
	cli.Must(cmd.RegisterFlagCompletionFunc("payload", cobra.FixedCompletions([]string{cli.PayloadPretty, cli.PayloadRaw}, cobra.ShellCompDirectiveNoFileComp)))
}

// onlyFirst completes the first argument and nothing after it.
func onlyFirst(c cli.Completion) cli.Completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c(cmd, args, toComplete)
	}
}

func checkPayloadFlag(payload string) error {
	if payload != "" && payload != cli.PayloadPretty && payload != cli.PayloadRaw {
		return fault.Usagef("--payload: %q is neither pretty nor raw", payload)
	}
	return nil
}

func runDLQShow(ctx context.Context, opts *dlqShowOptions) error {
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
	targets, err := store.Resolve(ctx, []string{id}, dlq.StateOpen)
	if err != nil {
		return operate.StoreError(err)
	}
	if targets[0].ID == "" {
		return fault.Hint(fault.NotFoundf("no dead letter %s, and no dead letter of an event with that id", id), "outboxctl why %s tells what became of an event", id)
	}
	entries, err := store.Entries(ctx, []string{targets[0].ID})
	if err != nil {
		return operate.StoreError(err)
	}
	if len(entries) == 0 {
		return fault.NotFoundf("dead letter %s was removed meanwhile", id)
	}
	detail := dlqDetail{Entry: entries[0]}
	created := detail.FailedAt
	if detail.EventCreatedAt != nil {
		created = *detail.EventCreatedAt
	}
	about := eventRef{detail.EventID, detail.AggregateType, detail.AggregateID, created}
	if err := describeEvent(opts.app, ctx, store, about, opts.consumers, &detail.eventDetail); err != nil {
		return err
	}
	if opts.payload != "" {
		content, err := store.Content(ctx, detail.ID)
		if err != nil {
			return operate.StoreError(err)
		}
		detail.Payload, detail.Headers = content.Payload, content.Headers
	}
	return cli.WriteObject(opts.app, opts.output.Format, detail, func(w io.Writer) error {
		return sayDeadLetter(opts.app, w, detail, opts.payload)
	})
}

// eventRef is enough of an event to find what belongs to it when its row is gone.
type eventRef struct {
	id, aggregateType, aggregateID string
	createdAt                      time.Time
}

// describeEvent gathers what surrounds an event.
func describeEvent(a *cli.App, ctx context.Context, store *dlq.Store, ref eventRef, consumers []string, d *eventDetail) error {
	event, err := store.Event(ctx, ref.id)
	switch {
	case err == nil:
		d.Event = &event
	case !errors.Is(err, dlq.ErrNotFound):
		return operate.StoreError(err)
	}
	deaths, err := store.Deaths(ctx, ref.id)
	if err != nil {
		return operate.StoreError(err)
	}
	audit, err := store.EventAudit(ctx, ref.id)
	if err != nil {
		return operate.StoreError(err)
	}
	d.History = dlq.History(d.Event, deaths, audit)
	if d.Neighbours, err = store.Neighbours(ctx, ref.aggregateType, ref.aggregateID, ref.id, ref.createdAt, neighbours); err != nil {
		return operate.StoreError(err)
	}
	if d.Neighbours == nil {
		d.Neighbours = []dlq.Event{}
	}
	d.Consumers, err = lookUpMarks(a, ctx, ref.id, consumers)
	if err != nil {
		// Redis is not needed to decide; its absence is told, not an error.
		d.ConsumersError = safetext.Redact(err.Error())
	}
	return nil
}

// lookUpMarks asks Redis about one event.
func lookUpMarks(a *cli.App, ctx context.Context, eventID string, consumers []string) ([]dlq.Mark, error) {
	none := []dlq.Mark{}
	marks, err := a.Marks()
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if len(consumers) == 0 {
		if consumers, err = marks.Consumers(ctx); err != nil || len(consumers) == 0 {
			return none, err
		}
	}
	found, err := marks.Lookup(ctx, consumers, []string{eventID})
	if err != nil {
		return none, err
	}
	return found, nil
}

func sayDeadLetter(a *cli.App, w io.Writer, d dlqDetail, payload string) error {
	p := a.Page(w)
	p.Title("dead letter " + d.ID)
	p.Field("event", d.EventID)
	p.Field("type", d.EventType)
	p.Field("aggregate", d.AggregateType+"/"+d.AggregateID)
	p.Field("topic", deref(d.Topic))
	p.Field("namespace", d.Namespace)
	p.Field("tenant", deref(d.TenantID))
	p.Field("state", d.State+p.Since(d.StateChangedAt))
	p.Field("failed", p.Time(&d.FailedAt))
	p.Field("reason", d.Reason)
	p.Field("attempts", fmt.Sprint(d.AttemptCount))
	p.Field("error", d.ErrorMessage)
	p.Field("fingerprint", deref(d.Fingerprint))
	p.Title("event")
	if d.Event == nil {
		p.Line("its row is gone: removed by cleanup. It cannot be replayed; outboxctl dlq export makes a new event of it.")
	} else {
		sayEvent(p, *d.Event)
	}
	sayEventDetail(p, d.eventDetail)
	return p.Payload(payload, d.Payload, d.Headers)
}

func sayEventDetail(p *cli.Page, d eventDetail) {
	p.Title("history")
	for _, step := range d.History {
		text := p.Time(&step.At) + "  " + step.What
		if step.Actor != "" {
			text += " by " + step.Actor
		}
		if step.Reason != "" {
			text += ": " + step.Reason
		}
		if step.Detail != "" {
			text += ": " + step.Detail
		}
		p.Line(text)
	}
	if len(d.Neighbours) > 0 {
		p.Title("other events of the aggregate")
		for _, e := range d.Neighbours {
			p.Line(strings.Join([]string{p.Time(&e.CreatedAt), e.ID, e.EventType, e.Status}, "  "))
		}
	}
	p.Title("consumers")
	switch {
	case d.ConsumersError != "":
		p.Line("Redis could not be asked: " + d.ConsumersError)
	case len(d.Consumers) == 0:
		p.Line("Redis knows no consumer; name some with --consumers")
	}
	for _, m := range d.Consumers {
		text := m.Consumer + "  " + m.State
		if m.Since != nil {
			text += " since " + p.Time(m.Since)
		}
		p.Line(text)
	}
}

func sayEvent(p *cli.Page, e dlq.Event) {
	p.Field("status", e.Status)
	p.Field("emitted", p.Time(&e.CreatedAt))
	p.Field("published", p.Time(e.PublishedAt))
	p.Field("message id", deref(e.BrokerMessageID))
	p.Field("dead", p.Time(e.DeadAt))
	p.Field("attempts", fmt.Sprint(e.AttemptCount))
	p.Field("last error", deref(e.LastError))
	if e.Status == dlq.StatusPending {
		p.Field("next attempt", p.Time(&e.NextAttemptAt))
	}
	if e.Status == dlq.StatusProcessing {
		p.Field("leased by", deref(e.LockedBy)+" until "+p.Time(e.LockedUntil))
	}
	p.Field("dedupe key", deref(e.DedupeKey))
}
