// Command pictures makes those of the README that are no photographs of the web page: the
// benchmark's bars and a terminal at work. Both show what the built program did when they were
// made.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/outboxctl/outboxctl/lab/rig"
)

func main() {
	program := flag.String("outboxctl", "bin/outboxctl", "the program that is shown")
	events := flag.Int("events", 50_000,
		"events of a round of the benchmark (a tenth of them for the row-by-row loop)")
	rounds := flag.Int("rounds", 3, "rounds of the benchmark, in turns")
	only := flag.String("only", "", "benchmark or terminal; both when empty")
	out := flag.String("out", "docs/images", "where the pictures go")
	flag.Parse()
	err := rig.Carry(func() {
		if *only != "terminal" {
			drawBenchmark(context.Background(), *program, *events, *rounds,
				filepath.Join(*out, "benchmark.svg"))
		}
		if *only != "benchmark" {
			drawTerminal(context.Background(), *program, filepath.Join(*out, "terminal.svg"))
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
