package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/operate"
)

// DefaultLimit is how many rows a list shows when none was asked for.
const DefaultLimit = 50

// AddPageFlags gives a list --limit and --cursor. row names what the cursor is of.
func AddPageFlags(cmd *cobra.Command, p *operate.Page, row string) {
	cmd.Flags().IntVar(&p.Limit, "limit", DefaultLimit, "how many rows to show; 0 shows all")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "start after the "+row)
}

// SayMore prints the command for the next part of a list on Err, if there is one.
func (a *App) SayMore(cmd *cobra.Command, list operate.Paged) {
	if list.Next != "" {
		fmt.Fprintf(a.Err, "more rows: %s\n", CommandLine(cmd, nil, map[string]string{"cursor": list.Next}))
	}
}
