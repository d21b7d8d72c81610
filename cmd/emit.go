package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/builtin"
	"github.com/outboxctl/outboxctl/emit/wire"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/registry"
)

type emitOptions struct {
	app   *cli.App
	given func(flag string) bool

	eventType, aggregateID, aggregateType, data string
	dedupeKey, tenant, namespace, occurredAt    string
	headers                                     []string

	stdin  bool
	atomic bool
	txSize int
	dryRun bool
	output cli.OutputFlag
}

const defaultEmitTxSize = 5_000

func newEmitCmd(app *cli.App, runF func(context.Context, *emitOptions) error) *cobra.Command {
	opts := &emitOptions{app: app}
	cmd := &cobra.Command{
		Use:   "emit",
		Short: "Write events to the outbox: one by flags, many as JSON lines",
		Long: `Write events to the outbox. Every event is checked against the registry before anything is sent, by the same rules
as in the Go package and the SQL functions; what is written is printed, by default its id.

One event is described by flags. With --stdin, each line of standard input is an event as a JSON object with the
names type, aggregateId, data and, where needed, aggregateType, dedupeKey, tenantId, namespace, headers,
occurredAt, actor. Lines are written in transactions of --tx-size events, or all in one with --atomic; ids are
printed once they are committed. A feed that falls silent is committed after two seconds.

A bad line is named with its number and its fields, and no line of its transaction is written. The exit code is then
2, or 5 when earlier transactions are committed; the summary says at which line to go on.`,
		Example: `  outboxctl emit --type license_status_changed --aggregate-id $LICENSE \
    --data '{"licenseId":"'$LICENSE'","storeId":"'$STORE'","status":"verified"}' --dedupe-key verified/$LICENSE
  outboxctl emit --type media_uploaded --aggregate-id $MEDIA --data @media.json --header traceparent=$TRACEPARENT
  outboxctl emit --stdin < events.jsonl
  outboxctl emit --stdin --dry-run < events.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.given = cmd.Flags().Changed
			if runF != nil {
				return runF(cmd.Context(), opts)
			}
			return runEmit(cmd.Context(), opts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.eventType, "type", "", "event type; outboxctl registry list shows them")
	f.StringVar(&opts.aggregateID, "aggregate-id", "", "UUID of the aggregate the event is about")
	f.StringVar(&opts.data, "data", "", "payload: JSON, @file, or - for standard input")
	f.StringVar(&opts.aggregateType, "aggregate-type", "", "aggregate type, checked against the event type's own")
	f.StringVar(&opts.dedupeKey, "dedupe-key", "", "write nothing when this namespace and type have an event with the key")
	f.StringVar(&opts.tenant, "tenant", "", "UUID of the tenant; the dedupe key must then start with it and a slash")
	f.StringVar(&opts.namespace, "namespace", "", "namespace of the event (default \"default\")")
	f.StringArrayVar(&opts.headers, "header", nil, "extra message attribute as name=value; repeatable")
	f.StringVar(&opts.occurredAt, "occurred-at", "", "when it happened, RFC 3339 (default now)")
	f.BoolVar(&opts.stdin, "stdin", false, "read events from standard input, one JSON object per line")
	f.BoolVar(&opts.atomic, "atomic", false, "with --stdin: write all lines in one transaction, or none")
	f.IntVar(&opts.txSize, "tx-size", defaultEmitTxSize, "with --stdin: events per transaction")
	f.BoolVar(&opts.dryRun, "dry-run", false, "check the events and write nothing; needs no database")
	cli.AddOutputFlag(cmd, &opts.output, cli.FormatID, cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatCSV)
	cli.Must(cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(registry.New().EventTypes(), cobra.ShellCompDirectiveNoFileComp)))
	cli.Must(cmd.RegisterFlagCompletionFunc("aggregate-type", cobra.FixedCompletions(builtin.AggregateTypes(), cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// eventFlags are those that describe one event, hence make no sense with --stdin.
func eventFlags() []string {
	return []string{"type", "aggregate-id", "data", "aggregate-type", "dedupe-key", "tenant", "namespace", "header", "occurred-at"}
}

func runEmit(ctx context.Context, opts *emitOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	emitter := emit.New(registry.New())
	emitter.Now = opts.app.Now
	if opts.stdin {
		return runEmitStream(ctx, opts, emitter)
	}
	event, err := opts.event()
	if err != nil {
		return err
	}
	prepared, err := emitter.Prepare(event)
	if err != nil {
		return emitError(err)
	}
	if opts.dryRun {
		fmt.Fprintf(opts.app.Err, "valid: %s would be published on %s; nothing written\n", prepared.Type, prepared.Topic)
		return nil
	}
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	w := newEmitWriter(opts, emitter, pool)
	if err := w.write(ctx, []emitLine{{prepared: prepared}}); err != nil {
		return w.failed(ctx, err)
	}
	if err := w.commit(ctx); err != nil {
		return w.failed(ctx, err)
	}
	if w.already > 0 {
		fmt.Fprintln(opts.app.Err, "already enqueued: an event with this dedupe key is there, nothing written")
	}
	return w.close()
}

// check finds flags that contradict each other.
func (o *emitOptions) check() error {
	for _, name := range eventFlags() {
		if o.stdin && o.given(name) {
			return fault.Usagef("--%s describes one event, --stdin reads many: use one of them", name)
		}
	}
	for _, name := range []string{"atomic", "tx-size"} {
		if !o.stdin && o.given(name) {
			return fault.Usagef("--%s only makes sense with --stdin", name)
		}
	}
	switch {
	case o.txSize < 1:
		return fault.Usagef("--tx-size %d: must be at least 1", o.txSize)
	case o.atomic && o.given("tx-size"):
		return fault.Usagef("--atomic writes one transaction, --tx-size several: use one of them")
	case !o.stdin && !o.given("type") && !o.given("data"):
		return fault.Hint(fault.Usagef("nothing to emit: give --type, --aggregate-id and --data, or --stdin"), "outboxctl registry list shows the event types")
	}
	return nil
}

// event reads the flags. What a flag's own syntax demands is checked here, the rest
// by the emitter.
func (o *emitOptions) event() (emit.Event, error) {
	p := emit.Event{
		Type: o.eventType, AggregateType: o.aggregateType, DedupeKey: o.dedupeKey, Namespace: o.namespace,
	}
	var problems []string
	// An empty value is a variable that was not set, not a choice.
	for _, name := range eventFlags() {
		if value, given := o.app.Flag(name); given && value == "" && name != "data" {
			problems = append(problems, "--"+name+" must not be empty")
		}
	}
	id := func(name, text string) uuid.UUID {
		id, err := wire.ParseID(text)
		if err != nil && text != "" {
			problems = append(problems, "--"+name+" "+err.Error())
		}
		return id
	}
	p.AggregateID, p.TenantID = id("aggregate-id", o.aggregateID), id("tenant", o.tenant)
	if o.occurredAt != "" {
		at, err := wire.ParseTime(o.occurredAt)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("--occurred-at %s, such as %s", err, o.app.Now().UTC().Format(time.RFC3339)))
		case at.IsZero(): // the emitter would take it for "not given"
			problems = append(problems, "--occurred-at must not be the zero time")
		}
		p.OccurredAt = at
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
		return p, fault.Usagef("%s", strings.Join(problems, "; "))
	}
	data, err := o.readData()
	p.Data = json.RawMessage(data)
	return p, err
}

func (o *emitOptions) readData() ([]byte, error) {
	switch {
	case o.data == "-":
		return readLimited(o.app.In, "--data -")
	case strings.HasPrefix(o.data, "@"):
		file, err := os.Open(o.data[1:])
		if err != nil {
			return nil, fault.Usagef("--data: %w", err)
		}
		defer file.Close()
		return readLimited(file, "--data "+o.data)
	default:
		return []byte(o.data), nil
	}
}

func readLimited(r io.Reader, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxEmitLine+1))
	if err != nil {
		return nil, fault.Usagef("read %s: %w", what, err)
	}
	if len(data) > maxEmitLine {
		return nil, fault.Usagef("%s has more than %d bytes", what, maxEmitLine)
	}
	return data, nil
}

// emitError gives the emitter's errors their exit codes and hints.
func emitError(err error) error {
	var invalid *emit.InvalidError
	switch {
	case errors.As(err, &invalid):
		err = fault.As(fault.Usage, err)
		for _, p := range invalid.Problems {
			if p.Field == "type" {
				return fault.Hint(err, "outboxctl registry list shows the event types")
			}
			if strings.HasPrefix(p.Field, "data.") {
				return fault.Hint(err, "outboxctl registry list -o wide shows the fields of each payload")
			}
		}
		return err
	case errors.Is(err, emit.ErrNotMigrated):
		return fault.Hint(fault.As(fault.Precondition, err), "outboxctl migrate creates or updates the tables")
	default:
		return err
	}
}
