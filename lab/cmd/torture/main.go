// Torture runs outboxctl under faults and checks what it left behind.
//
//	torture -program bin/outboxctl-failpoints -seed 7 -duration 3m    run, then check
//	torture check FILE                                                check a recorded run again
//	torture worker                                                    the consumer a run starts for itself
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/lab/check"
	"github.com/outboxctl/outboxctl/lab/rig"
	"github.com/outboxctl/outboxctl/lab/score"
	"github.com/outboxctl/outboxctl/lab/torture"
)

func main() { os.Exit(rig.Main(run)) }

func run(ctx context.Context, args []string, out, talk io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "worker":
		return torture.Work(ctx)
	case len(args) == 2 && args[0] == "check":
		_, err := judge(args[1], out)
		return err
	default:
		return inflict(ctx, args, out, talk)
	}
}

// errInvalid is a run that had too little load or too few faults to prove anything.
var errInvalid = errors.New("the run proves nothing")

// inflict runs and checks. A run that failed or proved nothing keeps its folder.
func inflict(ctx context.Context, args []string, out, talk io.Writer) error {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(talk)
	cfg := torture.Config{Log: talk}
	flags.Uint64Var(&cfg.Seed, "seed", uint64(time.Now().UnixNano()%1_000_000),
		"fixes workload and faults")
	flags.DurationVar(&cfg.Duration, "duration", 3*time.Minute, "how long producers and faults go on")
	flags.IntVar(&cfg.Rate, "rate", 300, "events per second")
	flags.StringVar(&cfg.Program, "program", "bin/outboxctl-failpoints",
		"outboxctl built with the tag failpoints")
	flags.StringVar(&cfg.Dir, "dir", "",
		"folder for state, logs and history (default a temporary one)")
	flags.StringVar(&cfg.FakeTime, "faketime", rig.FakeTime(),
		"path of libfaketime, which makes the database's clock wrong")
	flags.StringVar(&cfg.Broker, "broker", "", "what publishers publish to: http or nats (default the Pub/Sub fake)")
	only := flags.String("only", "", "narrow the faults to these kinds, separated by commas")
	flags.DurationVar(&cfg.Patience, "patience", torture.DefaultPatience,
		"how long consumers may take at the end")
	tries := flags.Int("tries", 1,
		"how often to run while the runs prove nothing, on a machine that cannot carry the load: each time at a third of the rate before")
	board := flags.String("score", "",
		"scoreboard to write the result to, such as docs/proof/scoreboard.json")
	row := flags.String("row", "R1", "its row: R1, or R2 for a long run")
	keep := flags.Bool("keep", false, "keep the folder also when nothing was found")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *only != "" {
		cfg.Only = strings.Split(*only, ",")
	}
	cfg.Worker = []string{rig.Must(os.Executable()), "worker"}
	cfg.Program, cfg.Dir = rig.Must(filepath.Abs(cfg.Program)), rig.StateDir(cfg.Dir)
	if cfg.FakeTime == "" {
		fmt.Fprintln(talk, "libfaketime is not installed: the database's clock will be right, which proves less")
	}
	err := errInvalid
	for root, try := cfg.Dir, 1; try <= *tries && errors.Is(err, errInvalid); try++ {
		if try > 1 {
			cfg.Rate = max(cfg.Rate/3, 1)
			fmt.Fprintf(talk, "once more, at %d events/s\n", cfg.Rate)
		}
		cfg.Dir = rig.StateDir(filepath.Join(root, strconv.Itoa(try)))
		var path string
		if path, err = torture.Run(ctx, cfg); err == nil {
			var report check.Report
			report, err = judge(path, out)
			if *board != "" && report.Valid {
				stamp := rig.Must(score.NewStamp(ctx, report.Figures.Seed))
				rig.Check(score.Record(*board, rig.Must(stamp.Torture(*row, report))))
			}
		}
	}
	if err != nil || *keep {
		fmt.Fprintln(talk, "kept:", cfg.Dir)
		return err
	}
	return os.RemoveAll(filepath.Dir(cfg.Dir))
}

// judge checks a recorded run and prints the report.
func judge(path string, out io.Writer) (report check.Report, err error) {
	if report, err = check.File(path); err != nil {
		return report, err
	}
	fmt.Fprintln(out, report)
	switch {
	case len(report.Violations) > 0:
		return report, fmt.Errorf("seed %d: %d violations", report.Figures.Seed, len(report.Violations))
	case !report.Valid:
		return report, fmt.Errorf("seed %d: %w", report.Figures.Seed, errInvalid)
	}
	return report, nil
}
