package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// operator works with the command line while the faults happen.
type operator struct {
	shell
	random *rand.Rand
	// crashes are failpoints to die in, at the next command that passes them; sent by the plan of faults.
	crashes chan crash
}

// crash asks for a command to die in a failpoint.
type crash struct {
	point string
	done  chan<- error
}

// run works until ctx ends.
func (o *operator) run(ctx context.Context) {
	for rig.Pause(ctx, time.Duration(400+o.random.IntN(1200))*time.Millisecond) {
		select {
		case c := <-o.crashes:
			c.done <- o.die(ctx, c.point)
		default:
			o.act(ctx)
		}
	}
}

func (o *operator) act(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	switch n := o.random.IntN(100); {
	case n < 20:
		o.shell.run(ctx, "", "", "stats", "-o", "json")
	case n < 40:
		o.shell.run(ctx, "", "", "dlq list", "-o", "json", "--limit", "50")
	case n < 60:
		if ids := o.letters(ctx, "open", 1+o.random.IntN(5)); len(ids) > 0 {
			o.shell.run(ctx, "", "", "dlq replay", append(ids, "--force", "--yes", "--note", "torture")...)
		}
	case n < 70:
		if ids := o.letters(ctx, "open", 1); len(ids) > 0 {
			o.shell.run(ctx, "", "", "dlq discard", append(ids, "--yes", "--note", "torture")...)
		}
	case n < 78:
		if ids := o.letters(ctx, "discarded", 3); len(ids) > 0 {
			o.shell.run(ctx, "", "", "dlq restore", append(ids, "--yes", "--note", "torture")...)
		}
	case n < 92:
		o.clean(ctx, "")
	default:
		o.shell.run(ctx, "", "", "migrate")
	}
}

func (o *operator) clean(ctx context.Context, arm string) history.Command {
	return o.shell.run(ctx, arm, "", "cleanup", "--older-than", cleanupAge.String(), "--note", "torture")
}

// letters picks some dead letters of a state.
func (o *operator) letters(ctx context.Context, state string, most int) []string {
	c := o.shell.run(ctx, "", "", "dlq list", "-o", "id", "--state", state, "--limit", "20")
	if c.Exit != 0 {
		return nil
	}
	ids := strings.Fields(c.Stdout)
	o.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:min(most, len(ids))]
}

// die runs a command that is killed in a failpoint, trying until there is something for it to do.
func (o *operator) die(ctx context.Context, point string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	arm := point + ":crash:1"
	for ctx.Err() == nil {
		var c history.Command
		if point == failpoint.Cleaning {
			c = o.clean(ctx, arm)
		} else if ids := o.letters(ctx, "open", 3); len(ids) > 0 {
			c = o.shell.run(ctx, arm, "", "dlq replay", append(ids, "--force", "--yes", "--note", "torture")...)
		}
		if c.Exit == -1 {
			return nil
		}
		rig.Pause(ctx, 500*time.Millisecond)
	}
	return fmt.Errorf("no command reached %s", point)
}
