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

// run runs one command to its end and records it, its output cut off. A failpoint may end it.
func (s *shell) run(ctx context.Context, arm, stdin, verb string, args ...string) history.Command {
	c := history.Command{At: time.Now(), Verb: verb, Args: args, Failpoint: pointOf(arm)}
	env := s.env
	if arm != "" {
		env = append(slices.Clone(env), failpoint.Env+"="+arm)
	}
	ran := rig.Command(ctx, env, stdin, s.program, append(strings.Fields(verb), args...)...)
	c.Ended, c.Exit, c.Stdout, c.Stderr = time.Now(), ran.Exit, ran.Stdout, ran.Stderr
	kept := c
	kept.Stdout, kept.Stderr = cut(c.Stdout), cut(c.Stderr)
	s.rec.Add(kept)
	return c
}

// cut keeps a history readable.
func cut(text string) string {
	const most = 4 << 10
	if len(text) > most {
		return text[:most]
	}
	return text
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

// line is one event of emit --stdin.
type line struct {
	Type        string            `json:"type"`
	AggregateID string            `json:"aggregateId"`
	Data        any               `json:"data"`
	Headers     map[string]string `json:"headers"`
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
			text, err := json.Marshal(line{d.event.Type, d.event.AggregateID, d.event.Data, d.event.Headers})
			if err != nil {
				panic(err) // our own structs encode
			}
			input.Write(append(text, '\n'))
		}
		c := s.run(context.WithoutCancel(ctx), "", input.String(), "emit", "--stdin", "--atomic")
		t.Ended = c.Ended
		t.Outcome = said(c)
		s.rec.Add(t)
		rig.Pause(ctx, time.Duration(500+source.random.IntN(1500))*time.Millisecond)
	}
}
