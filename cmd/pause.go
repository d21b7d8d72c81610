package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// pauseOptions are those of pause and of resume.
type pauseOptions struct {
	app *cli.App

	values map[string]*string // by kind
	length time.Duration
	doFlags
}

func newPauseCmd(app *cli.App) *cobra.Command {
	opts := &pauseOptions{app: app}
	cmd := &cobra.Command{
		Use:   "pause --topic|--type|--tenant|--namespace VALUE",
		Short: "Stop publishing a topic, type, tenant or namespace for a while",
		Long: `Make all publishers leave the events of a topic, a type, a tenant or a namespace
where they are. The pause is in the database; every publisher obeys it within a second, also one
that is started later. What was claimed before is still sent. Events that are held back lose no
attempt; in an ordering key what follows them waits too.

A pause ends with outboxctl resume, or by itself with --for. Pausing again gives it another end, or
none without --for, and names the one it had. stats, check, why and the metrics show it; outboxctl
pause list shows what is paused.`,
		Example: `  outboxctl pause --topic billing --for 2h --note 'consumer is migrated'
  outboxctl pause --tenant 7f2c0b60-0000-4000-8000-000000000001 --note 'asked for by support'
  outboxctl resume --topic billing`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPause(cmd.Context(), opts, false) },
	}
	addPauseFlags(cmd, "pause", opts)
	cli.AddLimit(cmd, &opts.length, "for", 0, time.Second, "end the pause after this `time`, such as 2h (default until resumed)")
	cmd.AddCommand(newPauseListCmd(app))
	return cmd
}

func newResumeCmd(app *cli.App) *cobra.Command {
	opts := &pauseOptions{app: app}
	cmd := &cobra.Command{
		Use:     "resume --topic|--type|--tenant|--namespace VALUE",
		Short:   "Resume what was paused",
		Long:    `Resume what was paused: publishers take it up within a second.`,
		Example: "  outboxctl resume --topic billing --note 'consumer is migrated'",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runPause(cmd.Context(), opts, true) },
	}
	addPauseFlags(cmd, "resume", opts)
	return cmd
}

func pauseKinds() []string {
	return []string{outbox.PauseTopic, outbox.PauseType, outbox.PauseTenant, outbox.PauseNamespace}
}

func addPauseFlags(cmd *cobra.Command, verb string, o *pauseOptions) {
	o.values = map[string]*string{}
	for _, kind := range pauseKinds() {
		o.values[kind] = cmd.Flags().String(kind, "", "the `"+kind+"` to "+verb)
	}
	o.add(cmd)
}

// params reads which one of the flags was given.
func (o *pauseOptions) params() (outbox.PauseParams, error) {
	p := outbox.PauseParams{For: o.length, Actor: o.app.Actor(o.audit), Note: o.audit.Note}
	if err := o.app.RefuseEmpty(pauseKinds()...); err != nil {
		return p, err
	}
	for _, kind := range pauseKinds() {
		if value := *o.values[kind]; value != "" {
			if p.Kind != "" {
				return p, fault.Usagef("give --topic, --type, --tenant or --namespace, only one of them")
			}
			p.Kind, p.Value = kind, value
		}
	}
	if p.Kind == "" {
		return p, fault.Hint(fault.Usagef("specify --topic, --type, --tenant or --namespace"), "outboxctl pause list shows what is paused")
	}
	return p, nil
}

// runPause pauses or resumes what the flags name, once it is confirmed, and prints what came of it.
func runPause(ctx context.Context, o *pauseOptions, resume bool) error {
	p, err := o.params()
	if err != nil {
		return err
	}
	box, err := o.app.Outbox(ctx)
	if err != nil {
		return err
	}
	do, check, verb := box.Pause, box.CheckPause, "pause"
	if resume {
		do, check, verb = box.Resume, box.CheckResume, "resume"
	}
	if err := check(ctx, &p); err != nil {
		return err
	}
	events, err := box.CountHeld(ctx, p)
	if err != nil {
		return err
	}
	if err := o.confirm(ctx, o.yes, verb, safetext.Line(p.Kind+" "+p.Value), events); err != nil {
		return err
	}
	r, err := do(ctx, p)
	if err != nil {
		return err
	}
	return o.say(r)
}

// confirm asks before what waits is held back or let go.
func (o *pauseOptions) confirm(ctx context.Context, yes bool, verb, what string, events int64) error {
	return o.app.Confirm(ctx, yes, events, fmt.Sprintf("%s %s, of which %s %s now", verb, what, words.Counted(events, "event"), waits(events)))
}

// say prints a pause that was made or ended.
func (o *pauseOptions) say(r outbox.PauseResult) error {
	now, text := o.app.Now(), safetext.Line(r.Kind+" "+r.Value)
	if r.Outcome == outbox.Resumed {
		text = "resumed " + text
	} else {
		text += " is paused " + outbox.PauseEnds(now, r.Until)
	}
	if r.Before != nil {
		text += fmt.Sprintf("; %s had paused it %s", safetext.Line(r.Before.Actor), outbox.PauseEnds(now, r.Before.Until))
	}
	return o.write(r, fmt.Sprintf("%s; %s %s%s\n", text, words.Counted(r.Events, "event"), waits(r.Events), o.app.Where()))
}

// write prints the result in the chosen form; text is what a person reads.
func (o *pauseOptions) write(r outbox.PauseResult, text string) error {
	switch o.output.Form() {
	case cli.FormatID:
		return cli.WriteList(o.app, o.output, cli.View[outbox.PauseResult]{
			ID: func(p outbox.PauseResult) string { return p.Kind + "=" + p.Value },
			Columns: cli.Columns[outbox.PauseResult]("kind, value, outcome, events, until, " +
				"run=runId"),
		}, []outbox.PauseResult{r})
	default:
		return cli.WriteObject(o.app, o.output, r, func(p *cli.Page) { fmt.Fprint(p, text) })
	}
}

func newPauseListCmd(app *cli.App) *cobra.Command {
	return listing(app, &cobra.Command{
		Use:     "list",
		Short:   "List what is paused, by whom, why and until when",
		Example: "  outboxctl pause list",
	}, true, cli.View[outbox.HeldPause]{
		ID:    func(p outbox.HeldPause) string { return p.Kind + "=" + p.Value },
		Empty: "nothing is paused",
		Columns: cli.Columns[outbox.HeldPause]("kind, value:whole, events, oldest=oldestAt:90, " +
			"since=at:110, until, actor, note:rest"),
	}, from(app.Outbox,
		func(ctx context.Context, box *dlq.Outbox, _ []string) ([]outbox.HeldPause, error) {
			return box.Pauses(ctx)
		}))
}
