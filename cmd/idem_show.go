package cmd

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/operate"
)

type idemShowOptions struct {
	app *cli.App

	eventID   string
	consumers []string
	output    cli.OutputFlag
}

// idemRow is what is known about one consumer and event.
type idemRow struct {
	EventID  string `json:"eventId"`
	Consumer string `json:"consumer"`
	// State in Redis: unknown, processing or processed.
	State     string     `json:"state"`
	Since     *time.Time `json:"since,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	Owner     string     `json:"owner,omitempty"`
	// InboxAt is when the effect was committed, if the consumer keeps an inbox.
	InboxAt *time.Time `json:"inboxAt,omitempty"`
	Key     string     `json:"key"`
}

func newIdemShowCmd(app *cli.App, runF func(context.Context, *idemShowOptions) error) *cobra.Command {
	opts := &idemShowOptions{app: app}
	cmd := &cobra.Command{
		Use:   "show EVENT_ID",
		Short: "Show which consumers have processed an event",
		Long: `Show, for each consumer, what Redis knows about an event (unknown, processing or processed) and, where the database is
configured, when its effect was committed. Without --consumer, all consumers are shown that have announced themselves in
Redis or written an inbox row. EVENT_ID may also be a dead letter's id, which only the database can tell.`,
		Example: `  outboxctl idem show 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d
  outboxctl idem show 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d --consumer compliance -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.eventID = args[0]
			return runF(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringSliceVar(&opts.consumers, "consumer", nil, "show only these consumers (repeatable)")
	cli.AddOutputFlag(cmd, &opts.output, cli.ListFormats()...)
	return cmd
}

func runIdemShow(ctx context.Context, opts *idemShowOptions) error {
	app := opts.app
	id, err := parseEventID(opts.eventID)
	if err != nil {
		return err
	}
	for _, name := range opts.consumers {
		if err := consume.ValidateConsumer(name); err != nil {
			return fault.As(fault.Usage, err)
		}
	}
	keeper, err := app.Keeper()
	if err != nil {
		return err
	}
	pool := app.OptionalPool(ctx)
	if id, err = eventBehind(ctx, pool, id); err != nil {
		return err
	}
	names := opts.consumers
	if len(names) == 0 {
		if names, err = knownConsumers(ctx, keeper, pool); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		names = []string{notifications.Consumer}
	}
	rows, err := idemRows(ctx, app, keeper, pool, id, names)
	if err != nil {
		return err
	}
	return cli.WriteList(app, opts.output.Format, idemView(), rows)
}

func idemRows(ctx context.Context, app *cli.App, keeper *idem.Keeper, pool *pgxpool.Pool, id uuid.UUID, names []string) ([]idemRow, error) {
	entries, err := keeper.LookupMany(ctx, names, []uuid.UUID{id})
	if err != nil {
		return nil, keeperError(err)
	}
	inbox, err := inboxTimes(ctx, pool, id, names)
	if err != nil {
		return nil, err
	}
	rows := make([]idemRow, len(entries))
	for i, e := range entries {
		rows[i] = idemRow{
			EventID: id.String(), Consumer: e.Consumer, State: string(e.State), Owner: e.Owner, Key: consume.Key(e.Consumer, id),
		}
		if !e.Since.IsZero() {
			rows[i].Since = &e.Since
		}
		if e.State != consume.StateUnknown && e.ExpiresIn > 0 {
			at := app.Now().Add(e.ExpiresIn).UTC().Truncate(time.Millisecond)
			rows[i].ExpiresAt = &at
		}
		if at, found := inbox[e.Consumer]; found {
			rows[i].InboxAt = &at
		}
	}
	return rows, nil
}

func inboxTimes(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID, names []string) (map[string]time.Time, error) {
	found := map[string]time.Time{}
	if pool == nil {
		return found, nil
	}
	rows, err := pool.Query(ctx, inboxSQL, id.String(), names)
	if err != nil {
		return nil, operate.StoreError(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var at time.Time
		if err := rows.Scan(&name, &at); err != nil {
			return nil, err
		}
		found[name] = at.UTC()
	}
	return found, operate.StoreError(rows.Err())
}

func idemView() cli.View[idemRow] {
	colours := map[string]cli.Style{"processed": cli.StyleGood, "processing": cli.StyleWarn, "unknown": cli.StyleFaint}
	return cli.View[idemRow]{
		ID: func(r idemRow) string { return r.Consumer },
		Columns: []cli.Column[idemRow]{
			{Head: "consumer", Cell: func(r idemRow, _ *cli.CellStyle) string { return r.Consumer }},
			{
				Head: "state", Cell: func(r idemRow, _ *cli.CellStyle) string { return r.State },
				Style: func(r idemRow) cli.Style { return colours[r.State] },
			},
			{Head: "since", Cell: func(r idemRow, s *cli.CellStyle) string { return s.TimePtr(r.Since) }},
			{Head: "expires", Cell: func(r idemRow, s *cli.CellStyle) string { return s.TimePtr(r.ExpiresAt) }},
			{Head: "inbox", Cell: func(r idemRow, s *cli.CellStyle) string { return s.TimePtr(r.InboxAt) }},
			{Head: "owner", Wide: true, Cell: func(r idemRow, _ *cli.CellStyle) string { return r.Owner }},
			{Head: "key", Wide: true, Cell: func(r idemRow, _ *cli.CellStyle) string { return r.Key }},
		},
	}
}
