package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// A Watch is --watch and its --interval.
type Watch struct {
	On    bool
	Every time.Duration
}

// AddWatchFlags gives a command that looks -w.
func AddWatchFlags(cmd *cobra.Command, w *Watch) {
	cmd.Flags().BoolVarP(&w.On, "watch", "w", false, "refresh until interrupted")
	AddLimit(cmd, &w.Every, "interval", 2*time.Second, 100*time.Millisecond, "pause between two queries with --watch")
}

// The screen that leaves the terminal's own as it was, without a cursor, and back.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l"
	ownScreen   = "\x1b[?25h\x1b[?1049l"
	// fromTheTop draws over the frame before, and the rest of each line and of the screen is cleared.
	fromTheTop  = "\x1b[H"
	restOfLine  = "\x1b[K"
	restOfPaper = "\x1b[J"
)

// Watch looks once or, with --watch, until ctx ends: on a terminal each look is drawn over the one
// before, on a screen of its own; elsewhere one comes after the other. A look that fails is shown
// and tried again: watching through an outage is what the operator is there for.
func (a *App) Watch(ctx context.Context, w Watch, look func(ctx context.Context) error) error {
	if !w.On {
		return look(ctx)
	}
	out := a.Out
	if a.OutTTY {
		fmt.Fprint(out, otherScreen)
		defer fmt.Fprint(out, ownScreen)
	}
	for {
		if err := a.frame(ctx, look); err != nil {
			return err
		}
		if wait.For(ctx, w.Every) != nil {
			return nil
		}
	}
}

func (a *App) frame(ctx context.Context, look func(ctx context.Context) error) error {
	if !a.OutTTY {
		if err := look(ctx); err != nil && ctx.Err() == nil {
			a.Report(err)
		}
		return nil
	}
	var page bytes.Buffer
	own := a.Streams
	a.Out, a.Err = &page, &page
	err := look(ctx)
	if err != nil && ctx.Err() == nil {
		a.Report(err)
	}
	a.Streams = own
	if ctx.Err() != nil {
		return nil
	}
	text := strings.TrimSuffix(page.String(), "\n")
	if lines := strings.Split(text, "\n"); a.Height > 0 && len(lines) > a.Height {
		text = strings.Join(lines[:a.Height], "\n")
	}
	_, err = fmt.Fprint(a.Out, fromTheTop, strings.ReplaceAll(text, "\n", restOfLine+"\n"), restOfLine+restOfPaper)
	return err
}

// A Trend is what a figure was in the last looks at it, drawn as bars.
type Trend []float64

// history is how many looks a trend spans.
const history = 60

// Add remembers a figure.
func (t *Trend) Add(v float64) {
	*t = append(*t, v)
	*t = (*t)[max(0, len(*t)-history):]
}

// String draws the figures as bars between zero and the greatest.
func (t Trend) String() string {
	bars := []rune("▁▂▃▄▅▆▇█")
	top := 0.0
	for _, v := range t {
		top = max(top, v)
	}
	line := make([]rune, len(t))
	for i, v := range t {
		step := 0
		if top > 0 {
			step = int(v / top * float64(len(bars)-1))
		}
		line[i] = bars[step]
	}
	return string(line)
}
