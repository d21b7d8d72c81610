// Bench measures outboxctl from outside: see docs/proof/benchmarks.md.
//
//	bench -program bin/outboxctl
//	bench -program bin/outboxctl -mode steady -check
//	bench -program bin/outboxctl -against /tmp/old/outboxctl -rounds 5
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/outboxctl/outboxctl/lab/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

func main() { os.Exit(rig.Main(run)) }

func run(ctx context.Context, args []string, out, talk io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(talk)
	p := bench.Params{Log: talk}
	flags.StringVar(&p.Mode, "mode", bench.Modes()[0].Name, "what to measure")
	flags.StringVar(&p.Program, "program", "bin/outboxctl", "outboxctl to measure")
	flags.StringVar(&p.Against, "against", "", "another outboxctl to measure in turn with it")
	flags.IntVar(&p.Rounds, "rounds", 0, "turns of runs that are compared, of which the best counts (default 2)")
	flags.IntVar(&p.Events, "events", 0, "events to publish (default 50000, consume 10000, ui 60000)")
	flags.IntVar(&p.PayloadBytes, "payload", 0, "about how many bytes each event's payload has (default 400)")
	flags.IntVar(&p.Publishers, "publishers", 0, "publishers that share the work (default 1)")
	flags.IntVar(&p.Workers, "workers", 0, "claim-publish-settle pipelines of each publisher")
	flags.IntVar(&p.BatchSize, "batch-size", 0, "rows per claim to begin with")
	flags.IntVar(&p.Rate, "rate", 0, "events per second of the steady modes")
	flags.DurationVar(&p.Duration, "duration", 0, "how long the steady modes last")
	flags.DurationVar(&p.Open, "open", 0, "how long each transaction of the steady modes stays open behind its event")
	flags.BoolVar(&p.NoWake, "no-wake", false, "leave publishers to polling")
	flags.IntVar(&p.Head, "head", 0, "rows in the way, or behind")
	flags.IntVar(&p.Keys, "keys", 0, "ordering keys that the events share")
	flags.StringVar(&p.Broker, "broker", "", "where events go: "+strings.Join(bench.Brokers(), ", "))
	flags.StringVar(&p.DatabaseURL, "database-url", "", "server for a scratch database (default a private one)")
	flags.BoolVar(&p.Check, "check", false, "judge the result and fail when a criterion is not met")
	asJSON := flags.Bool("json", false, "print JSON")
	usage := flags.Usage
	flags.Usage = func() {
		usage()
		fmt.Fprintln(talk, "\nmodes:")
		for _, m := range bench.Modes() {
			fmt.Fprintf(talk, "  %-13s %s\n", m.Name, m.Summary)
		}
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("bench takes no arguments: %q", flags.Args())
	}
	report, err := bench.Run(ctx, p)
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
