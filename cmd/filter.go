package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// addFilterFlags gives a command the filters of a query, except some. what happened to the rows at
// the times of --since and
// --until.
func addFilterFlags(cmd *cobra.Command, q *outbox.Query, what string, except ...string) {
	flags := cmd.Flags()
	for _, f := range q.Fields() {
		if slices.Contains(except, f.Name) {
			continue
		}
		help := strings.ReplaceAll(f.Help, "%s", what)
		switch at := f.At.(type) {
		case *[]string:
			flags.StringSliceVar(at, f.Name, nil, help)
		case *bool:
			flags.BoolVar(at, f.Name, false, help)
		case *string:
			if f.Choices != nil {
				help += ": " + strings.Join(f.Choices, ", ")
			}
			flags.StringVar(at, f.Name, *at, help)
		}
	}
}

// checkFilter reports what is wrong with the filter flags, before a connection is made.
func checkFilter(app *cli.App, q *outbox.Query) error {
	_, err := q.Filter(app.Now())
	return err
}

// filterBy reads the filter flags by the database's clock, which is the one that rows are stamped
// with, and names the values that are likely misspelt.
func filterBy(ctx context.Context, app *cli.App, box *dlq.Outbox, q *outbox.Query) (outbox.Filter, error) {
	now, err := box.Now(ctx)
	if err != nil {
		return outbox.Filter{}, err
	}
	f, err := q.Filter(now)
	if err != nil {
		return f, err
	}
	notes, err := box.Misspelt(ctx, q.Names())
	for _, note := range notes {
		fmt.Fprintln(app.Err, "note:", safetext.Line(note))
	}
	return f, err
}
