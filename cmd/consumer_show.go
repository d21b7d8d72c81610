package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/idem"
)

func newConsumerShowCmd(app *cli.App) *cobra.Command {
	var params idem.MarksParams
	cmd := &cobra.Command{
		Use:   "show EVENT_ID",
		Short: "Show which consumers have processed an event",
		Long: `Show, for each consumer, what Redis knows about an event (unknown, processing or
processed) and, where the database is configured, when its effect was committed. Without --consumer,
all consumers are shown that have announced themselves in Redis or written an inbox row. EVENT_ID
may also be a dead letter's id if there is a database to look it up in.`,
		Example: `  outboxctl consumer show 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d
  outboxctl consumer show 019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d --consumer compliance -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteEventIDs(app, "")),
	}
	cmd.Flags().StringSliceVar(&params.Consumers, "consumer", nil, "show only these consumers (repeatable)")
	return listing(app, cmd, false, consumerMarkView(), func(ctx context.Context, args []string) ([]idem.Mark, error) {
		params.ID = args[0]
		if err := params.Check(); err != nil {
			return nil, err
		}
		box, err := app.ConsumersOutbox(ctx)
		if err != nil {
			return nil, err
		}
		marks, err := box.Marks(ctx, params)
		if err == nil && len(marks) == 0 {
			fmt.Fprintln(app.Err, "no consumer is known; name one with --consumer")
		}
		return marks, err
	})
}

func consumerMarkView() cli.View[idem.Mark] {
	colours := map[consume.State]cli.Style{consume.StateProcessed: cli.StyleGood, consume.StateProcessing: cli.StyleWarn, consume.StateUnknown: cli.StyleFaint}
	return cli.View[idem.Mark]{
		ID: func(m idem.Mark) string { return m.Consumer },
		Columns: []cli.Column[idem.Mark]{
			{Head: "consumer"},
			{
				Head:  "state",
				Style: func(m idem.Mark) cli.Style { return colours[consume.State(m.State)] },
			},
			{Head: "since"},
			{Head: "expires", Field: "expiresAt"},
			{Head: "inbox", Field: "inboxAt"},
			{Head: "owner", Wide: true},
			{Head: "key", Wide: true},
		},
	}
}
