package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

type emitOptions struct {
	app *cli.App
	// event has what flags set as it is; the rest is read from the others.
	event                               emit.Event
	data, tenant, occurredAt, deliverAt string
	in                                  cli.DurationFlag
	headers                             []string

	stdin, dryRun bool
	output        cli.Output
}

func (o *emitOptions) given(flag string) bool {
	_, given := o.app.Flag(flag)
	return given
}

func newEmitCmd(app *cli.App) *cobra.Command {
	opts := &emitOptions{app: app}
	cmd := &cobra.Command{
		Use:   "emit",
		Short: "Write events to the outbox: one by flags, many as JSON lines",
		Long: `Write events to the outbox. Every event is checked against the registry before
anything is sent, by the same rules as in the Go package and the SQL functions; what is written is
printed, by default its id.

One event is described by flags. With --stdin, each line of standard input is an event as a JSON
object with the names type, aggregateId, data and, where needed, aggregateType, dedupeKey, tenantId,
namespace, headers, occurredAt, actor, orderingKey, byAggregate, deliverAt. All lines are one
transaction, which lasts as long as the input: a bad line is named with its number and its fields,
and then nothing is written. Ids are printed once they are committed.

The exit code is 5 when the connection broke during COMMIT, so that all events may be written or
none: with a dedupe key they can be sent again.`,
		Example: `  outboxctl emit --type license_status_changed --aggregate-id $LICENSE \
    --data '{"licenseId":"'$LICENSE'","storeId":"'$STORE'","status":"verified"}' --dedupe-key verified/$LICENSE
  outboxctl emit --type media_uploaded --aggregate-id $MEDIA --data @media.json --header traceparent=$TRACEPARENT
  outboxctl emit --type notification_requested --aggregate-id $NOTICE --data @notice.json --in 2h
  outboxctl emit --stdin < events.jsonl
  outboxctl emit --stdin --dry-run < events.jsonl`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runEmit(cmd.Context(), opts) },
	}
	f, event := cmd.Flags(), &opts.event
	f.StringVar(&event.Type, "type", "", "event type; outboxctl registry list shows them")
	f.StringVar(&event.AggregateID, "aggregate-id", "", "UUID of the aggregate the event is about")
	f.StringVar(&opts.data, "data", "", "payload: JSON, @file, or - for standard input")
	f.StringVar(&event.AggregateType, "aggregate-type", "", "aggregate type, checked against the event type's own")
	f.StringVar(&event.DedupeKey, "dedupe-key", "", "write nothing when this namespace and type have an event with the key")
	f.StringVar(&opts.tenant, "tenant", "", "UUID of the tenant; the dedupe key must then start with it and a slash")
	f.StringVar(&event.Namespace, "namespace", "", "namespace of the event (default \"default\")")
	f.StringVar(&event.OrderingKey, "ordering-key", "", "publish the event after all earlier ones of its namespace with this key")
	f.BoolVar(&event.ByAggregate, "ordered", false, "publish the event after all earlier ones of its aggregate that are ordered too")
	f.StringArrayVar(&opts.headers, "header", nil, "extra message attribute as name=value; repeatable")
	f.IntVar(&event.MaxAttempts, "max-attempts", 0, "failed deliveries after which the event is dead (default the publisher's)")
	f.StringVar(&opts.deliverAt, "deliver-at", "", "publish it then and not before, RFC 3339")
	f.Var(&opts.in, "in", "publish it after this time and not before, such as 2h")
	f.StringVar(&opts.occurredAt, "occurred-at", "", "when it happened, RFC 3339 (default now)")
	f.BoolVar(&opts.stdin, "stdin", false, "read events from standard input, one JSON object per line, and write all or none")
	f.BoolVar(&opts.dryRun, "dry-run", false, "check the events and write nothing; needs no database")
	cli.AddOutputFlags(cmd, &opts.output, cli.FormatID, cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatJSONL)
	return cmd
}

// eventFlags are those that describe one event, hence make no sense with --stdin.
func eventFlags() []string {
	return []string{"type", "aggregate-id", "data", "aggregate-type", "dedupe-key", "tenant", "namespace", "header", "occurred-at", "max-attempts",
		"ordering-key", "ordered", "deliver-at", "in"}
}

func runEmit(ctx context.Context, opts *emitOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	var params outbox.EmitParams
	if opts.stdin {
		params.Lines = opts.app.In
	} else {
		if err := opts.readEvent(); err != nil {
			return err
		}
		params.Event = &opts.event
	}
	// A bad event is an error before a connection is made; a stream is checked whole in a dry run.
	if opts.dryRun || !opts.stdin {
		if err := opts.checkEvents(ctx, params); err != nil || opts.dryRun {
			return err
		}
	}
	box, err := opts.app.Outbox(ctx)
	if err != nil {
		return err
	}
	defer cli.SurviveClosedPipe()()
	return opts.emit(ctx, box, params)
}

// checkEvents is the dry run, which needs no database.
func (o *emitOptions) checkEvents(ctx context.Context, params outbox.EmitParams) error {
	params.DryRun = true
	types, err := o.app.Registry(ctx)
	if err != nil {
		return err
	}
	valid, err := dlq.New(nil, types).Emit(ctx, params)
	switch {
	case err != nil || !o.dryRun:
		return err
	case o.stdin:
		fmt.Fprintf(o.app.Err, "valid: %s; nothing written\n", words.Counted(int64(len(valid)), "event"))
	default:
		topic := types.TopicOf(o.event.Namespace, o.event.Type)
		fmt.Fprintf(o.app.Err, "valid: %s would be published on %s; nothing written\n", o.event.Type, topic)
	}
	return nil
}

// emit writes the events, and prints them once they are committed.
func (o *emitOptions) emit(ctx context.Context, box *dlq.Outbox, params outbox.EmitParams) error {
	done := func() {}
	if o.stdin {
		bar := o.app.NewProgress("emit", -1)
		params.Wrote = func(events int) { bar.Add(int64(events)) }
		done = bar.Done
	}
	start := o.app.Now()
	written, err := box.Emit(ctx, params)
	done()
	if err != nil {
		if kind, _ := fault.KindOf(err); o.stdin && kind != fault.Partial {
			fmt.Fprintf(o.app.Err, "%s: nothing written\n", either(ctx.Err() != nil, "interrupted", "stopped"))
		}
		return err
	}
	o.summarise(written, o.app.Now().Sub(start))
	if err := o.print(written); err != nil {
		return fault.As(fault.Partial, fmt.Errorf("all events are committed; print their ids: %w", err))
	}
	return nil
}

func (o *emitOptions) print(written []outbox.Emitted) error {
	// Ids leave in large pieces: a system call for each would be a tenth of the work.
	buffer := bufio.NewWriterSize(o.app.Out, 64<<10)
	list := o.list(buffer)
	for _, e := range written {
		if err := list.Write(e); err != nil {
			return err
		}
	}
	return errors.Join(list.Close(), buffer.Flush())
}

// list starts the list of written events. One event given by flags is an object, not a list of one.
func (o *emitOptions) list(out io.Writer) cli.ListWriter[outbox.Emitted] {
	buffered := *o.app
	buffered.Out = out
	if format := o.output.Form(); !o.stdin && format == cli.FormatJSON {
		return oneEvent{&buffered, o.output}
	}
	return cli.NewListWriter(&buffered, o.output, cli.View[outbox.Emitted]{
		Columns: cli.Columns[outbox.Emitted]("id, type, topic:wide, " +
			"already enqueued=alreadyEnqueued, line:wide"),
	})
}

type oneEvent struct {
	app    *cli.App
	output cli.Output
}

func (o oneEvent) Write(e outbox.Emitted) error { return cli.WriteObject(o.app, o.output, e, nil) }
func (o oneEvent) Close() error                 { return nil }

// summarise says how many events were written.
func (o *emitOptions) summarise(written []outbox.Emitted, took time.Duration) {
	already := 0
	for _, e := range written {
		already += either(e.AlreadyEnqueued, 1, 0)
	}
	switch {
	case o.stdin:
		there := ""
		if already > 0 {
			there = fmt.Sprintf(" (%s of them already enqueued)", words.Count(int64(already)))
		}
		rate := int64(float64(len(written)) / max(took.Seconds(), 0.001))
		fmt.Fprintf(o.app.Err, "emitted %s%s in %s, %s/s\n", words.Counted(int64(len(written)), "event"), there, took.Round(time.Millisecond), words.Count(rate))
	case already > 0:
		fmt.Fprintln(o.app.Err, "already enqueued: an event with this dedupe key is there, nothing written")
	}
}

// check finds flags that contradict each other.
func (o *emitOptions) check() error {
	for _, name := range eventFlags() {
		if o.stdin && o.given(name) {
			return fault.Usagef("--%s describes one event, --stdin reads many: use one of them", name)
		}
	}
	switch {
	case o.event.ByAggregate && o.event.OrderingKey != "":
		return fault.Usagef("--ordered takes the aggregate as the key, --ordering-key names one: use one of them")
	case o.given("in") && o.given("deliver-at"):
		return fault.Usagef("--in counts from now, --deliver-at names the time: use one of them")
	case !o.stdin && !o.given("type") && !o.given("data"):
		return fault.Hint(fault.Usagef("nothing to emit: give --type, --aggregate-id and --data, or --stdin"), "outboxctl registry list shows the event types")
	}
	return nil
}

// readEvent reads the flags, and checks their syntax; the emitter checks the rest.
func (o *emitOptions) readEvent() (err error) {
	p := &o.event
	var problems []string
	if o.given("max-attempts") && o.event.MaxAttempts < 1 {
		problems = append(problems, "--max-attempts must be at least 1")
	}
	// An empty value is a variable that was not set, not a choice.
	for _, name := range eventFlags() {
		if value, given := o.app.Flag(name); given && value == "" && name != "data" {
			problems = append(problems, "--"+name+" must not be empty")
		}
	}
	if o.tenant != "" {
		if p.TenantID, err = outbox.ParseTenant(o.tenant); err != nil {
			problems = append(problems, err.Error())
		}
	}
	moment := func(flag, text string) (at time.Time) {
		if text == "" {
			return at
		}
		at, err := wire.ParseTime(text)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("--%s %s, such as %s", flag, err, o.app.Now().UTC().Format(time.RFC3339)))
		case at.IsZero(): // the emitter would take it for "not given"
			problems = append(problems, "--"+flag+" must not be the zero time")
		}
		return at
	}
	p.OccurredAt, p.DeliverAt = moment("occurred-at", o.occurredAt), moment("deliver-at", o.deliverAt)
	if o.given("in") {
		p.DeliverAt = o.app.Now().Add(*o.in.Value)
	}
	for _, header := range o.headers {
		name, value, ok := strings.Cut(header, "=")
		if _, twice := p.Headers[name]; !ok || name == "" || twice {
			problems = append(problems, fmt.Sprintf("--header %q must be name=value, each name once", header))
			continue
		}
		if p.Headers == nil {
			p.Headers = map[string]string{}
		}
		p.Headers[name] = value
	}
	if len(problems) > 0 {
		return fault.Usagef("%s", strings.Join(problems, "; "))
	}
	data, err := readData(o.app, o.data)
	p.Data = json.RawMessage(data)
	return err
}

// readData reads what --data names: a file after @, standard input for -, otherwise itself.
func readData(app *cli.App, text string) ([]byte, error) {
	switch {
	case text == "-":
		return readLimited(app.In, "--data -")
	case strings.HasPrefix(text, "@"):
		file, err := os.Open(text[1:])
		if err != nil {
			return nil, fault.Usagef("--data: %w", fault.File(text[1:], err))
		}
		defer file.Close()
		return readLimited(file, "--data "+text)
	default:
		return []byte(text), nil
	}
}

func readLimited(r io.Reader, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, outbox.MaxEventText+1))
	if err != nil {
		return nil, fault.Usagef("read %s: %w", what, fault.File(strings.TrimPrefix(what, "--data @"), err))
	}
	if len(data) > outbox.MaxEventText {
		return nil, fault.Usagef("%s has more than %d bytes", what, outbox.MaxEventText)
	}
	return data, nil
}
