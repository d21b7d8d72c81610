// Bench runs the measurements of the laboratory.
//
//	bench -mode compared -check
//	bench -mode ui -head 5000000 -program bin/outboxctl -check
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	engine "github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/lab/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

func main() { os.Exit(rig.Main(run)) }

func run(ctx context.Context, args []string, out, talk io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(talk)
	p := engine.Params{Progress: func(format string, args ...any) {
		fmt.Fprintf(talk, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}}
	name := flags.String("mode", bench.Modes()[0].Name, "what to measure")
	flags.IntVar(&p.Events, "events", 0, "events to publish")
	flags.IntVar(&p.PayloadBytes, "payload", 0, "about how many bytes each event's payload has")
	flags.IntVar(&p.Publishers, "publishers", 0, "publishers that share the work")
	flags.IntVar(&p.Rate, "rate", 0, "events per second of the steady modes")
	flags.DurationVar(&p.Duration, "duration", 0, "how long the steady modes last")
	flags.IntVar(&p.Head, "head", 0, "rows in the way, or behind")
	flags.StringVar(&p.Executable, "program", "",
		"outboxctl to run in processes of its own, which measures its memory")
	flags.BoolVar(&p.Check, "check", false, "judge the result and fail when a criterion is not met")
	asJSON := flags.Bool("json", false, "print JSON")
	usage := flags.Usage
	flags.Usage = func() {
		usage()
		for _, m := range bench.Modes() {
			fmt.Fprintf(talk, "  %-13s %s\n", m.Name, m.Summary)
		}
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	at := slices.IndexFunc(bench.Modes(), func(m engine.Mode) bool { return m.Name == *name })
	if at < 0 {
		return fmt.Errorf("no such mode: %q", *name)
	}
	p.Mode, p.Processes = bench.Modes()[at], p.Executable != ""
	report, err := engine.Run(ctx, p)
	if report != nil {
		write := report.WriteText
		if *asJSON {
			write = func(w io.Writer) error { return json.NewEncoder(w).Encode(report) }
		}
		err = errors.Join(err, write(out))
	}
	if err == nil && !report.Passed() {
		err = errors.New("a criterion is not met")
	}
	return err
}
