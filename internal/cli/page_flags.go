package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// DefaultLimit is how many rows a list shows when none was asked for.
const DefaultLimit = 50

// AddPageFlags gives a list --limit and --cursor. row names what the cursor is of.
func AddPageFlags(cmd *cobra.Command, p *outbox.Page, row string) {
	cmd.Flags().IntVar(&p.Limit, "limit", DefaultLimit, "how many rows to show; 0 shows all")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "start after the "+row)
}

// WritePage prints one part of a list on Out, and the command for the next part, if there is one,
// on Err.
func WritePage[T any](a *App, cmd *cobra.Command, o Output, v View[T],
	list func(each func(T) error) (outbox.Paged, error)) error {
	w, err := NewListWriter(a, o, v)
	if err != nil {
		return err
	}
	page, err := list(w.Write)
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if page.Next != "" {
		fmt.Fprintf(a.Err, "more rows: %s\n",
			CommandLine(cmd, nil, map[string]string{"cursor": page.Next}))
	}
	return nil
}
