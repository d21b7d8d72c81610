package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// On a terminal each look is drawn over the one before, cut to the screen, and the screen is given back; elsewhere one
// follows the other. A look that fails is shown, and the next one comes.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tty  bool
		want string
	}{
		"terminal": {true, otherScreen + "\x1b[Hlook 1\x1b[K\nsecond line\x1b[K\x1b[J" + "\x1b[Herror: look 2\x1b[K\x1b[J" + "\x1b[Hlook 3\x1b[K\nsecond line\x1b[K\x1b[J" + ownScreen},
		"pipe":     {false, "look 1\nsecond line\nthird\nerror: look 2\nlook 3\nsecond line\nthird\n"},
	} {
		var out bytes.Buffer
		app := NewApp(Streams{Out: &out, Err: &out, OutTTY: tc.tty, Width: 80, Height: 2}, nil)
		ctx, stop := context.WithCancel(t.Context())
		looks := 0
		err := app.Watch(ctx, Watch{On: true, Every: time.Millisecond}, func(context.Context) error {
			switch looks++; looks {
			case 2:
				return errors.New("look 2")
			case 4:
				stop()
				return nil
			}
			fmt.Fprintf(app.Out, "look %d\nsecond line\nthird\n", looks)
			return nil
		})
		require.NoError(t, err, name)
		require.Equal(t, tc.want, out.String(), name)
	}
}
