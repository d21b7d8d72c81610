// Adoption tries the ways of docs/adoption.md, and a rolling deploy with two catalogues, from the
// built program and under load. Each event is followed to where it was published; one that is lost,
// dead, or sent from two places fails the run.
//
//	adoption -program bin/outboxctl                 all of them
//	adoption -program bin/outboxctl -rows 1000000 C only this one
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/rig"
)

func main() { os.Exit(rig.Main(run)) }

type lab struct {
	rig.World
	// page is docs/adoption.md, from which the trigger of path B comes.
	page          string
	duration      time.Duration
	rate          int
	rows, waiting int
	out           io.Writer
	seen          func(eventID string) // of the present site
}

// ways are tried one after the other, each in a database of its own. They are steps: see rig.Carry.
func ways() map[string]func(*lab, context.Context, *site) {
	return map[string]func(*lab, context.Context, *site){
		"A": (*lab).pathA, "B": (*lab).pathB, "C": (*lab).pathC, "rolling": (*lab).rolling,
	}
}

func run(ctx context.Context, args []string, out, talk io.Writer) error {
	flags := flag.NewFlagSet("adoption", flag.ContinueOnError)
	flags.SetOutput(talk)
	l := &lab{out: out}
	flags.StringVar(&l.Program, "program", "bin/outboxctl", "outboxctl as users have it")
	flags.StringVar(&l.page, "page", "docs/adoption.md", "the page that is tried")
	flags.DurationVar(&l.duration, "duration", 20*time.Second,
		"how long events are written in A, B and rolling")
	flags.IntVar(&l.rate, "rate", 200, "events per second of each writer")
	flags.IntVar(&l.rows, "rows", 1_000_000, "rows of path C's table")
	flags.IntVar(&l.waiting, "waiting", 20_000, "how many of them wait")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names := flags.Args()
	if len(names) == 0 {
		names = []string{"rolling", "A", "B", "C"}
	}
	if i := slices.IndexFunc(names, func(n string) bool { return ways()[n] == nil }); i >= 0 {
		return fmt.Errorf("%q is none of rolling, A, B, C", names[i])
	}
	err := rig.Carry(func() { l.try(ctx, names) })
	return errors.Join(err, l.Close())
}

func (l *lab) try(ctx context.Context, names []string) {
	l.Program, l.page = rig.Must(filepath.Abs(l.Program)), string(rig.Must(os.ReadFile(l.page)))
	l.Dir = rig.StateDir("")
	l.OnClose(func() error { return os.RemoveAll(l.Dir) })
	l.StartPostgres(ctx, devstack.PostgresParams{Dir: l.Dir, Durable: true})
	l.StartBroker(ctx, rig.NewBroker(nil, func(_ time.Time, a devstack.PublishAnswer) {
		for _, m := range a.Messages {
			l.seen(m.GetAttributes()["event_id"])
		}
	}))
	for i, name := range names {
		fmt.Fprintln(l.out, name)
		s := l.open(ctx, fmt.Sprintf("try%d", i))
		err := rig.Carry(func() { ways()[name](l, ctx, s) })
		s.close()
		if err != nil {
			rig.Check(fmt.Errorf("%s: %w", name, err))
		}
	}
}

func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.out, "  "+strings.TrimSpace(format)+"\n", args...)
}
