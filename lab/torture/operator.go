package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
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

// said reads what emit says about its transaction: 5 stands for a commit whose outcome it
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
		c := s.run(context.WithoutCancel(ctx), "", input.String(), "emit", "--stdin")
		t.Ended, t.Outcome = c.Ended, said(c)
		s.rec.Add(t)
		rig.Pause(ctx, time.Duration(500+source.random.IntN(1500))*time.Millisecond)
	}
}

// operator works with the command line while the faults happen.
type operator struct {
	*shell
	random *rand.Rand
	// crashes are failpoints to die in, at the next command that passes them; sent by the plan of
	// faults.
	crashes chan crash
}

type crash struct {
	point string
	done  chan<- error
}

// crash has the next command that passes a failpoint die in it.
func (o *operator) crash(ctx context.Context, point string) error {
	done := make(chan error, 1)
	select {
	case o.crashes <- crash{point, done}:
		return <-done
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
	case n < 12:
		o.shell.run(ctx, "", "", "stats", "-o", "json")
	case n < 24:
		o.shell.run(ctx, "", "", "dlq list", "-o", "json", "--limit", "50")
	case n < 36:
		o.change(ctx, "dlq replay", o.letters(ctx, 1+o.random.IntN(5), "--state", "open"), "--force")
	case n < 52:
		o.change(ctx, "dlq replay", o.letters(ctx, 20, "--blocking"), "--force")
	case n < 54:
		o.change(ctx, "dlq discard", o.letters(ctx, 1, "--state", "open"))
	case n < 68:
		o.change(ctx, "dlq discard", o.letters(ctx, 10, "--blocking"))
	case n < 86:
		o.change(ctx, "dlq restore", o.letters(ctx, 3, "--state", "discarded"))
	case n < 94:
		o.clean(ctx, "")
	default:
		o.shell.run(ctx, "", "", "migrate")
	}
}

// change runs a command that changes dead letters, if there are any.
func (s *shell) change(ctx context.Context, verb string, letters []string, flags ...string) {
	if len(letters) > 0 {
		s.run(ctx, "", "", verb, slices.Concat(letters, flags, []string{"--yes", "--note", "torture"})...)
	}
}

func (o *operator) clean(ctx context.Context, arm string) history.Command {
	return o.shell.run(ctx, arm, "", "cleanup", "--older-than", cleanupAge.String(), "--note", "torture")
}

// letters picks some of the dead letters that a filter leaves.
func (o *operator) letters(ctx context.Context, most int, filter ...string) []string {
	c := o.shell.run(ctx, "", "", "dlq list", append([]string{"-o", "id", "--limit", "20"},
		filter...)...)
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
		} else if ids := o.letters(ctx, 3, "--state", "open"); len(ids) > 0 {
			c = o.shell.run(ctx, arm, "", "dlq replay", append(ids, "--force", "--yes", "--note",
				"torture")...)
		}
		if c.Exit == -1 {
			return nil
		}
		rig.Pause(ctx, 500*time.Millisecond)
	}
	return fmt.Errorf("no command reached %s", point)
}
