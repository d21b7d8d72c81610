package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

type idemForgetOptions struct {
	app *cli.App

	eventID  string
	consumer string
	inbox    bool
	force    bool
	dryRun   bool
	yes      bool
	audit    cli.AuditFlags
	output   cli.OutputFlag
}

// forgetResult is what idem forget did.
type forgetResult struct {
	EventID  string `json:"eventId"`
	Consumer string `json:"consumer"`
	// State in Redis before.
	State        string `json:"state"`
	Forgotten    bool   `json:"forgotten"`
	InboxRemoved bool   `json:"inboxRemoved"`
	AuditID      int64  `json:"auditId,omitempty"`
	DryRun       bool   `json:"dryRun"`
}

func newIdemForgetCmd(app *cli.App, runF func(context.Context, *idemForgetOptions) error) *cobra.Command {
	opts := &idemForgetOptions{app: app}
	cmd := &cobra.Command{
		Use:   "forget EVENT_ID --consumer NAME --note TEXT",
		Short: "Let a consumer process an event again",
		Long: `Delete what Redis remembers about one event and consumer, so that the event's next delivery is processed again. A
consumer that keeps an inbox, as the example does, still turns the event away: --inbox removes that row too. EVENT_ID may
also be a dead letter's id.

Nothing is published by this: outboxctl event republish sends the event again. The audit row is committed before the key
is deleted, and a deletion that did not happen gets an audit row of its own.`,
		Example: `  outboxctl idem forget 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d --consumer compliance --note "notice was lost" --dry-run
  outboxctl idem forget 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d --consumer compliance --inbox --note "TICKET-7" --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.eventID = args[0]
			return runF(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.consumer, "consumer", "", "the consumer that shall forget")
	flags.BoolVar(&opts.inbox, "inbox", false, "remove the consumer's inbox row as well")
	flags.BoolVar(&opts.force, "force", false, "even while a handler is working on the event")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "show what would be forgotten, and change nothing")
	cli.AddYesFlag(cmd, &opts.yes)
	cli.AddAuditFlags(cmd, &opts.audit)
	cli.AddOutputFlag(cmd, &opts.output, cli.ObjectFormats()...)
	return cmd
}

func (opts *idemForgetOptions) validate() (uuid.UUID, error) {
	id, err := parseEventID(opts.eventID)
	if err != nil {
		return id, err
	}
	var missing []error
	if opts.consumer == "" {
		missing = append(missing, errors.New("--consumer: say which consumer shall forget"))
	} else if err := consume.ValidateConsumer(opts.consumer); err != nil {
		missing = append(missing, err)
	}
	if opts.audit.Note == "" && !opts.dryRun {
		missing = append(missing, errors.New("--note: say why, for the audit trail"))
	}
	if err := errors.Join(missing...); err != nil {
		return id, fault.Hint(fault.As(fault.Usage, err), "outboxctl idem show %s lists the consumers", id)
	}
	return id, nil
}

func runIdemForget(ctx context.Context, opts *idemForgetOptions) error {
	id, err := opts.validate()
	if err != nil {
		return err
	}
	keeper, err := opts.app.Keeper()
	if err != nil {
		return err
	}
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	if id, err = eventBehind(ctx, pool, id); err != nil {
		return err
	}
	entry, err := keeper.Lookup(ctx, opts.consumer, id)
	if err != nil {
		return keeperError(err)
	}
	inbox, err := inboxTimes(ctx, pool, id, []string{opts.consumer})
	if err != nil {
		return err
	}
	_, inInbox := inbox[opts.consumer]
	if err := opts.check(entry, inInbox); err != nil {
		return err
	}
	result := forgetResult{EventID: id.String(), Consumer: opts.consumer, State: string(entry.State), DryRun: opts.dryRun}
	if !opts.dryRun {
		if err := opts.app.Confirm(ctx, opts.yes, "forget it"); err != nil {
			return err
		}
		if err := opts.forget(ctx, keeper, pool, entry, &result); err != nil {
			return err
		}
	}
	return cli.WriteObject(opts.app, opts.output.Format, result, func(w io.Writer) error { return sayForget(w, result) })
}

// check says what will be touched, and refuses what would be pointless or dangerous.
func (opts *idemForgetOptions) check(entry idem.Entry, inInbox bool) error {
	app := opts.app
	switch {
	case entry.State == consume.StateUnknown && !inInbox:
		return fault.NotFoundf("consumer %s knows nothing about event %s", opts.consumer, entry.EventID)
	case entry.State == consume.StateUnknown && !opts.inbox:
		return fault.Hint(fault.NotFoundf("redis knows nothing about event %s, only the inbox of %s does", entry.EventID, opts.consumer),
			"--inbox removes the inbox row")
	case entry.State == consume.StateProcessing && !opts.force:
		return fault.Hint(fault.Preconditionf("event %s is being processed by %s", entry.EventID, safetext.Line(entry.Owner)),
			"wait until it is done; --force lets a second handler run beside it")
	}
	fmt.Fprintf(app.Err, "consumer %s will forget event %s (%s in redis)\n", opts.consumer, entry.EventID, entry.State)
	switch {
	case inInbox && opts.inbox:
		fmt.Fprintln(app.Err, "its inbox row will be removed too: the next delivery repeats the effect")
	case inInbox:
		fmt.Fprintln(app.Err, "its inbox row stays, so the next delivery still has no effect; --inbox removes it")
	}
	return nil
}

// forget commits the audit row first: a crash then leaves a wish on record that can be repeated, never a deletion
// nobody can explain.
func (opts *idemForgetOptions) forget(ctx context.Context, keeper *idem.Keeper, pool *pgxpool.Pool, entry idem.Entry, result *forgetResult) error {
	actor := opts.app.Actor(opts.audit)
	detail, err := json.Marshal(map[string]any{"state": entry.State, "owner": entry.Owner, "forced": opts.force})
	if err != nil {
		return err
	}
	err = pool.QueryRow(ctx, `SELECT audit_id, inbox_removed FROM outbox_forget_event($1, $2::uuid, $3, $4, $5, $6::jsonb)`,
		opts.consumer, entry.EventID.String(), opts.inbox, actor, opts.audit.Note, json.RawMessage(detail)).
		Scan(&result.AuditID, &result.InboxRemoved)
	if err != nil {
		return operate.StoreError(fmt.Errorf("write the audit row: %w", err))
	}
	if entry.State == consume.StateUnknown {
		return nil
	}
	forgotten, err := keeper.Forget(ctx, entry)
	if err == nil && forgotten {
		result.Forgotten = true
		return nil
	}
	problem := "the key changed before it could be deleted"
	if err != nil {
		problem = safetext.Stored(err.Error())
	}
	// The record must be put right even when the caller has given up.
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.ConnectTimeout)
	defer cancel()
	_, auditErr := pool.Exec(settle, `SELECT outbox_forget_event_undone($1, $2, $3, $4::jsonb)`,
		result.AuditID, actor, problem, json.RawMessage(`{"redisForgotten": false}`))
	return fault.Hint(errors.Join(fault.Preconditionf("redis did not forget event %s: %s", entry.EventID, problem), auditErr),
		"outboxctl idem show %s shows what it knows now", entry.EventID)
}

func sayForget(w io.Writer, r forgetResult) error {
	var err error
	switch {
	case r.DryRun:
		_, err = fmt.Fprintln(w, "dry run: nothing was changed")
	case r.InboxRemoved:
		_, err = fmt.Fprintf(w, "%s forgot event %s, inbox row included (audit %d)\n", r.Consumer, r.EventID, r.AuditID)
	default:
		_, err = fmt.Fprintf(w, "%s forgot event %s (audit %d)\n", r.Consumer, r.EventID, r.AuditID)
	}
	return err
}
