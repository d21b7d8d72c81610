package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// shell runs outboxctl as a person at a prompt would.
type shell struct {
	program string
	env     []string
	rec     *history.Recorder
}

// shell is one for a database.
func (w *world) shell(url string) *shell { return &shell{w.Program, w.Env(url), w.rec} }

// run runs one command to its end and records it, its output cut off. A failpoint may end it.
func (s *shell) run(ctx context.Context, arm, stdin, verb string, args ...string) history.Command {
	c := history.Command{At: time.Now(), Verb: verb, Args: args, Failpoint: pointOf(arm)}
	env := s.env
	if arm != "" {
		env = append(slices.Clone(env), failpoint.Env+"="+arm)
	}
	ran := rig.Command(ctx, env, stdin, s.program, append(strings.Fields(verb), args...)...)
	c.Ended, c.Exit, c.Stdout, c.Stderr = time.Now(), ran.Exit, ran.Stdout, ran.Stderr
	const most = 4 << 10 // keeps a history readable
	kept := c
	kept.Stdout, kept.Stderr = c.Stdout[:min(most, len(c.Stdout))], c.Stderr[:min(most, len(c.Stderr))]
	s.rec.Add(kept)
	return c
}

// do is run for a command that has to succeed.
func (s *shell) do(ctx context.Context, verb string) {
	if c := s.run(ctx, "", "", verb); c.Exit != 0 {
		rig.Check(fmt.Errorf("%s: %s", verb, c.Stderr))
	}
}

// said reads what emit --atomic says about its transaction: 5 stands for a commit whose outcome it
// could not find out, and a command that was cut off says nothing at all. Any other failure claims
// that nothing was written.
func said(c history.Command) history.Outcome {
	switch c.Exit {
	case 0:
		return history.Committed
	case 5, -1:
		return history.Unknown
	default:
		return history.RolledBack
	}
}

// script emits events through the command line, a transaction at a time, until ctx ends.
func (s *shell) script(ctx context.Context, source *source) {
	for n := 1; ctx.Err() == nil; n++ {
		t := history.Transaction{ID: fmt.Sprintf("cli/%d", n), How: howCLI, At: time.Now()}
		var input strings.Builder
		for range 1 + source.random.IntN(8) {
			d := source.next()
			for d.byHand() {
				d = source.next()
			}
			name := source.id().String()
			d.event.Headers["torture-line"], d.event.Headers["torture-tx"] = name, t.ID
			intent := d.intent()
			intent.EventID, intent.Line = "", name
			t.Events = append(t.Events, intent)
			input.Write(append(rig.Must(json.Marshal(map[string]any{ // our own structs encode
				"type": d.event.Type, "aggregateId": d.event.AggregateID, "data": d.event.Data, "headers": d.event.Headers,
			})), '\n'))
		}
		c := s.run(context.WithoutCancel(ctx), "", input.String(), "emit", "--stdin", "--atomic")
		t.Ended, t.Outcome = c.Ended, said(c)
		s.rec.Add(t)
		rig.Pause(ctx, time.Duration(500+source.random.IntN(1500))*time.Millisecond)
	}
}
