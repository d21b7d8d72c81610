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

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// neighbours is how many events of the aggregate are shown on either side.
const neighbours = 5

// How a payload is shown, when it is.
const (
	payloadPretty = "pretty"
	payloadRaw    = "raw"
)

type dlqShowOptions struct {
	app *App

	id        string
	payload   string
	consumers []string
	output    outputFlag
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

func newDLQShowCmd(app *App, run func(context.Context, *dlqShowOptions) error) *cobra.Command {
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
		ValidArgsFunction: onlyFirst(completeDLQIDs(app, "")),
	}
	addShowFlags(cmd, &opts.payload, &opts.consumers)
	addOutputFlag(cmd, &opts.output, objectFormats()...)
	return cmd
}

func addShowFlags(cmd *cobra.Command, payload *string, consumers *[]string) {
	cmd.Flags().StringVar(payload, "payload", "", "show what the event carries: pretty or raw")
	cmd.Flags().StringSliceVar(consumers, "consumers", nil, "ask about these consumers (default: those Redis knows)")
	must(cmd.RegisterFlagCompletionFunc("payload", cobra.FixedCompletions([]string{payloadPretty, payloadRaw}, cobra.ShellCompDirectiveNoFileComp)))
}

// onlyFirst completes the first argument and nothing after it.
func onlyFirst(c completion) completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c(cmd, args, toComplete)
	}
}

func checkPayloadFlag(payload string) error {
	if payload != "" && payload != payloadPretty && payload != payloadRaw {
		return usageErrorf("--payload: %q is neither pretty nor raw", payload)
	}
	return nil
}

func runDLQShow(ctx context.Context, opts *dlqShowOptions) error {
	id, err := checkID(opts.id)
	if err != nil {
		return err
	}
	if err := checkPayloadFlag(opts.payload); err != nil {
		return err
	}
	store, err := opts.app.store(ctx)
	if err != nil {
		return err
	}
	targets, err := store.Resolve(ctx, []string{id}, dlq.StateOpen)
	if err != nil {
		return dlqError(err)
	}
	if targets[0].ID == "" {
		return withHint(notFoundErrorf("no dead letter %s, and no dead letter of an event with that id", id), "outboxctl why %s tells what became of an event", id)
	}
	entries, err := store.Entries(ctx, []string{targets[0].ID})
	if err != nil {
		return dlqError(err)
	}
	if len(entries) == 0 {
		return notFoundErrorf("dead letter %s was removed meanwhile", id)
	}
	detail := dlqDetail{Entry: entries[0]}
	created := detail.FailedAt
	if detail.EventCreatedAt != nil {
		created = *detail.EventCreatedAt
	}
	about := eventRef{detail.EventID, detail.AggregateType, detail.AggregateID, created}
	if err := opts.app.describeEvent(ctx, store, about, opts.consumers, &detail.eventDetail); err != nil {
		return err
	}
	if opts.payload != "" {
		content, err := store.Content(ctx, detail.ID)
		if err != nil {
			return dlqError(err)
		}
		detail.Payload, detail.Headers = content.Payload, content.Headers
	}
	return writeObject(opts.app, opts.output.format, detail, func(w io.Writer) error {
		return sayDeadLetter(opts.app, w, detail, opts.payload)
	})
}

// eventRef is enough of an event to find what belongs to it when its row is gone.
type eventRef struct {
	id, aggregateType, aggregateID string
	createdAt                      time.Time
}

// describeEvent gathers what surrounds an event.
func (a *App) describeEvent(ctx context.Context, store *dlq.Store, ref eventRef, consumers []string, d *eventDetail) error {
	event, err := store.Event(ctx, ref.id)
	switch {
	case err == nil:
		d.Event = &event
	case !errors.Is(err, dlq.ErrNotFound):
		return dlqError(err)
	}
	deaths, err := store.Deaths(ctx, ref.id)
	if err != nil {
		return dlqError(err)
	}
	audit, err := store.EventAudit(ctx, ref.id)
	if err != nil {
		return dlqError(err)
	}
	d.History = dlq.History(d.Event, deaths, audit)
	if d.Neighbours, err = store.Neighbours(ctx, ref.aggregateType, ref.aggregateID, ref.id, ref.createdAt, neighbours); err != nil {
		return dlqError(err)
	}
	if d.Neighbours == nil {
		d.Neighbours = []dlq.Event{}
	}
	d.Consumers, err = a.lookUpMarks(ctx, ref.id, consumers)
	if err != nil {
		// Redis is not needed to decide; its absence is told, not an error.
		d.ConsumersError = safetext.Redact(err.Error())
	}
	return nil
}

// lookUpMarks asks Redis about one event.
func (a *App) lookUpMarks(ctx context.Context, eventID string, consumers []string) ([]dlq.Mark, error) {
	none := []dlq.Mark{}
	marks, err := a.marks()
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

func sayDeadLetter(a *App, w io.Writer, d dlqDetail, payload string) error {
	p := a.page(w)
	p.title("dead letter " + d.ID)
	p.field("event", d.EventID)
	p.field("type", d.EventType)
	p.field("aggregate", d.AggregateType+"/"+d.AggregateID)
	p.field("topic", deref(d.Topic))
	p.field("namespace", d.Namespace)
	p.field("tenant", deref(d.TenantID))
	p.field("state", d.State+p.since(d.StateChangedAt))
	p.field("failed", p.time(&d.FailedAt))
	p.field("reason", d.Reason)
	p.field("attempts", fmt.Sprint(d.AttemptCount))
	p.field("error", d.ErrorMessage)
	p.field("fingerprint", deref(d.Fingerprint))
	p.title("event")
	if d.Event == nil {
		p.line("its row is gone: removed by cleanup. It cannot be replayed; outboxctl dlq export makes a new event of it.")
	} else {
		sayEvent(p, *d.Event)
	}
	sayEventDetail(p, d.eventDetail)
	return p.payload(payload, d.Payload, d.Headers)
}

func sayEventDetail(p *page, d eventDetail) {
	p.title("history")
	for _, step := range d.History {
		text := p.time(&step.At) + "  " + step.What
		if step.Actor != "" {
			text += " by " + step.Actor
		}
		if step.Reason != "" {
			text += ": " + step.Reason
		}
		if step.Detail != "" {
			text += ": " + step.Detail
		}
		p.line(text)
	}
	if len(d.Neighbours) > 0 {
		p.title("other events of the aggregate")
		for _, e := range d.Neighbours {
			p.line(strings.Join([]string{p.time(&e.CreatedAt), e.ID, e.EventType, e.Status}, "  "))
		}
	}
	p.title("consumers")
	switch {
	case d.ConsumersError != "":
		p.line("Redis could not be asked: " + d.ConsumersError)
	case len(d.Consumers) == 0:
		p.line("Redis knows no consumer; name some with --consumers")
	}
	for _, m := range d.Consumers {
		text := m.Consumer + "  " + m.State
		if m.Since != nil {
			text += " since " + p.time(m.Since)
		}
		p.line(text)
	}
}

func sayEvent(p *page, e dlq.Event) {
	p.field("status", e.Status)
	p.field("emitted", p.time(&e.CreatedAt))
	p.field("published", p.time(e.PublishedAt))
	p.field("message id", deref(e.BrokerMessageID))
	p.field("dead", p.time(e.DeadAt))
	p.field("attempts", fmt.Sprint(e.AttemptCount))
	p.field("last error", deref(e.LastError))
	if e.Status == dlq.StatusPending {
		p.field("next attempt", p.time(&e.NextAttemptAt))
	}
	if e.Status == dlq.StatusProcessing {
		p.field("leased by", deref(e.LockedBy)+" until "+p.time(e.LockedUntil))
	}
	p.field("dedupe key", deref(e.DedupeKey))
}
