package cmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// A terminal of 80 columns has room for the status of every event, whatever its type is called.
func TestEventTailShowsTheStatus(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	app := cli.NewApp(cli.Streams{Out: &out, OutTTY: true, Width: 80}, nil)
	w := cli.NewLineWriter(app, eventView())
	for _, name := range []string{"ad_paused", "notification_requested", "line_item_state_changed"} {
		for _, status := range outbox.Statuses() {
			require.NoError(t, w.Write(outbox.Event{
				ID: "01890a5d-ac96-774b-bcce-b302099a8057", EventType: name, AggregateType: "vendor_order_line_item",
				AggregateID: "01890a5d-ac96-774b-bcce-b302099a8057", Status: status, CreatedAt: time.Now(),
			}))
		}
	}
	for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		line = ansi.Strip(line)
		require.LessOrEqual(t, ansi.StringWidth(line), 80, line)
		require.Contains(t, line, outbox.Statuses()[i%len(outbox.Statuses())], line)
	}
}
