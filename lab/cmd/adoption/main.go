// Adoption tries the ways of docs/adoption.md, and a rolling deploy with two catalogues, from the built program and under
// load. Each event is followed to where it was published; one that is lost, dead, or sent from two places fails the run.
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
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// lab is what the ways share.
type lab struct {
	program string
	// page is docs/adoption.md, from which the trigger of path B comes.
	page          string
	duration      time.Duration
	rate          int
	rows, waiting int
	dir           string
	postgres      *devstack.Postgres
	fake          *devstack.PubSub
	out           io.Writer
}

// ways are tried one after the other, each in a database of its own.
func ways() map[string]func(*lab, context.Context, *site) error {
	return map[string]func(*lab, context.Context, *site) error{
		"A": (*lab).pathA, "B": (*lab).pathB, "C": (*lab).pathC, "rolling": (*lab).rolling,
	}
}

func run(ctx context.Context, args []string, out, talk io.Writer) (err error) {
	flags := flag.NewFlagSet("adoption", flag.ContinueOnError)
	flags.SetOutput(talk)
	l := &lab{out: out}
	flags.StringVar(&l.program, "program", "bin/outboxctl", "outboxctl as users have it")
	flags.StringVar(&l.page, "page", "docs/adoption.md", "the page that is tried")
	flags.DurationVar(&l.duration, "duration", 20*time.Second, "how long events are written in A, B and rolling")
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
	if l.program, err = filepath.Abs(l.program); err != nil {
		return err
	}
	text, err := os.ReadFile(l.page)
	if err != nil {
		return err
	}
	l.page = string(text)
	if l.dir, err = rig.StateDir(""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if l.postgres, err = devstack.StartPostgres(ctx, devstack.PostgresParams{Dir: l.dir, Durable: true}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.postgres.Stop(context.WithoutCancel(ctx))) }()
	if l.fake, err = devstack.StartPubSub(ctx, devstack.PubSubParams{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.fake.Stop(context.WithoutCancel(ctx))) }()
	for i, name := range names {
		fmt.Fprintln(out, name)
		if err := l.try(ctx, fmt.Sprintf("try%d", i), ways()[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (l *lab) try(ctx context.Context, database string, way func(*lab, context.Context, *site) error) error {
	s, err := l.open(ctx, database)
	if err != nil {
		return err
	}
	return errors.Join(way(l, ctx, s), s.close())
}

func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.out, "  "+strings.TrimSpace(format)+"\n", args...)
}
