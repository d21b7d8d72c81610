// Command pictures makes those of the README that are no photographs of the web page: the
// benchmark's bars, a terminal at work and a trace. They show what the built program did when they
// were made.
package main

import (
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"

	"github.com/outboxctl/outboxctl/lab/rig"
)

func main() {
	program := flag.String("outboxctl", "bin/outboxctl", "the program that is shown")
	events := flag.Int("events", 50_000,
		"events of a round of the benchmark (a tenth of them for the row-by-row loop)")
	rounds := flag.Int("rounds", 3, "rounds of the benchmark, in turns")
	python := flag.String("python", "/usr/bin/python3", "a Python with psycopg2, for the trace")
	only := flag.String("only", "", "benchmark, terminal or trace; all when empty")
	out := flag.String("out", "docs/images", "where the pictures go")
	flag.Parse()
	os.Exit(rig.Main(func(ctx context.Context, _ []string, _, _ io.Writer) error {
		want := func(picture string) bool { return *only == "" || *only == picture }
		if want("benchmark") {
			drawBenchmark(ctx, *program, *events, *rounds, filepath.Join(*out, "benchmark.svg"))
		}
		if want("terminal") {
			drawTerminal(ctx, *program, filepath.Join(*out, "terminal.svg"))
		}
		if want("trace") {
			drawTrace(ctx, *program, *python, filepath.Join(*out, "trace.svg"))
		}
		return nil
	}))
}
