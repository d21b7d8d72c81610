// Scoreboard measures the rows of docs/proof/scoreboard.md and writes them there.
//
//	scoreboard -program bin/outboxctl-failpoints             all rows that have a scenario
//	scoreboard -program bin/outboxctl-failpoints R6 R7       only these; the others stay as they are
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/outboxctl/outboxctl/lab/rig"
	"github.com/outboxctl/outboxctl/lab/score"
)

func main() { os.Exit(rig.Main(run)) }

func run(ctx context.Context, args []string, out, talk io.Writer) (err error) {
	flags := flag.NewFlagSet("scoreboard", flag.ContinueOnError)
	flags.SetOutput(talk)
	s := &score.Session{Log: talk}
	flags.StringVar(&s.Program, "program", "bin/outboxctl-failpoints",
		"outboxctl built with the tag failpoints")
	flags.StringVar(&s.FakeTime, "faketime", rig.FakeTime(), "path of libfaketime")
	flags.BoolVar(&s.Full, "full", false, "run the sizes of the targets, which takes hours")
	flags.Float64Var(&s.Scale, "scale", 1, "make everything smaller, to try a scenario out")
	flags.BoolVar(&s.Keep, "keep", false, "keep the folders with the servers' and processes' logs")
	board := flags.String("board", "docs/proof/scoreboard.json",
		"where the rows are kept; the page is written beside it")
	seed := flags.Uint64("seed", 1, "fixes what is left to chance")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.Program, s.Stamp = rig.Must(filepath.Abs(s.Program)), rig.Must(score.NewStamp(ctx, *seed))
	s.Dir = rig.StateDir("")
	if s.Keep {
		fmt.Fprintln(talk, "keeping:", s.Dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(s.Dir)) }()
	}
	var rows []score.Row
	err = s.Run(ctx, flags.Args(), func(row score.Row) error {
		rows = append(rows, row)
		return score.Record(*board, row)
	})
	fmt.Fprint(out, score.Table(rows))
	return errors.Join(err, violated(rows))
}

// violated fails the run when something was incorrect. Being short does not: the machine may be
// busy.
func violated(rows []score.Row) error {
	var names []string
	for _, r := range rows {
		if r.Verdict == score.Violated {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("violated: %s", strings.Join(names, ", "))
}
