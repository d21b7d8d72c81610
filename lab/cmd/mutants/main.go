// Mutants plants known bugs, one at a time, and requires the torture run, or a test that is named, to
// find each of them. A bug that survives is a hole in the proof, and fails the run.
//
//	mutants                       all of them
//	mutants NAME...               only these
//	mutants -list                 what there is
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/lab/check"
	"github.com/outboxctl/outboxctl/lab/rig"
	"github.com/outboxctl/outboxctl/lab/score"
	"github.com/outboxctl/outboxctl/lab/torture"
)

func main() { os.Exit(rig.Main(run)) }

// hunt is one way of looking for a mutant.
type hunt struct {
	seed     uint64
	duration time.Duration
	verbose  bool
	out      io.Writer
}

func run(ctx context.Context, args []string, out, _ io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	h := hunt{out: out}
	list := flags.Bool("list", false, "list the planted bugs")
	// Odd: the database's clock is ten minutes behind.
	flags.Uint64Var(&h.seed, "seed", 1, "fixes workload and faults")
	flags.DurationVar(&h.duration, "duration", 25*time.Second, "how long each of them is tortured")
	parallel := flags.Int("parallel", 2, "how many are hunted at a time")
	board := flags.String("score", "", "scoreboard to write the result to, such as docs/proof/scoreboard.json")
	flags.BoolVar(&h.verbose, "v", false, "show each run's report")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var hunted []mutant
	for _, m := range catalogue() {
		if *list {
			fmt.Fprintln(out, m.name)
		} else if flags.NArg() == 0 || slices.Contains(flags.Args(), m.name) {
			hunted = append(hunted, m)
		}
	}
	switch {
	case *list:
		return nil
	case len(hunted) < flags.NArg():
		return errors.New("no such mutant; -list names them")
	}
	survived, err := h.all(ctx, hunted, *parallel)
	if err != nil {
		return err
	}
	if *board != "" && flags.NArg() == 0 { // a hunt for all of them is on the scoreboard
		row := rig.Must(rig.Must(score.NewStamp(ctx, h.seed)).Mutants(len(hunted), survived))
		rig.Check(score.Record(*board, row))
	}
	if len(survived) > 0 {
		return fmt.Errorf("%d of %d survived: %s", len(survived), len(hunted), strings.Join(survived, ", "))
	}
	fmt.Fprintf(out, "all %d killed\n", len(hunted))
	return nil
}

// all hunts several at a time, reports each as it is done with, and returns those that survived.
func (h hunt) all(ctx context.Context, mutants []mutant, parallel int) (survived []string, err error) {
	var mu sync.Mutex
	hunts, ctx := errgroup.WithContext(ctx)
	hunts.SetLimit(parallel)
	for _, m := range mutants {
		hunts.Go(func() error {
			began := time.Now()
			var verdict string
			var killed bool
			if err := rig.Carry(func() { verdict, killed = h.hunt(ctx, m) }); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !killed {
				survived = append(survived, m.name)
			}
			fmt.Fprintf(h.out, "%-45s %s (%s)\n", m.name, verdict, time.Since(began).Round(time.Second))
			return nil
		})
	}
	return survived, hunts.Wait()
}

// hunt builds a mutant, tortures it and looks for what it should break.
func (h hunt) hunt(ctx context.Context, m mutant) (verdict string, killed bool) {
	dir := rig.StateDir("")
	defer func() { _ = os.RemoveAll(dir) }()
	config := overlay(dir, m)
	if pkg, test, ok := strings.Cut(m.breaks[0], "."); ok {
		return h.test(ctx, dir, config, pkg, test)
	}
	for program, source := range map[string]string{"outboxctl": ".", "torture": "./lab/cmd/torture"} {
		compile(ctx, "build", "-tags", tags, "-overlay", config, "-o", filepath.Join(dir, program), source)
	}
	// A seed without faults would be a plan without a kind: then the workload is all there is.
	patience := time.Second
	if strings.HasPrefix(m.faults, "consumer.") {
		patience = time.Minute // such a bug shows in what consumers never do
	}
	args := []string{"-program", filepath.Join(dir, "outboxctl"), "-dir", filepath.Join(dir, "run"), "-seed", strconv.FormatUint(h.seed, 10),
		"-duration", h.duration.String(), "-patience", patience.String(), "-only", cmp.Or(m.faults, "none")}
	// It fails when it finds something, which is what is hoped for.
	said, runErr := exec.CommandContext(ctx, filepath.Join(dir, "torture"), args...).CombinedOutput()
	report, err := check.File(filepath.Join(dir, "run", "1", torture.HistoryFile))
	if err != nil {
		rig.Check(fmt.Errorf("%w: %w: %s", err, runErr, said))
	}
	if h.verbose {
		fmt.Fprintf(h.out, "%s\n", report)
	}
	counts := map[string]int{}
	for _, v := range report.Violations {
		counts[v.Invariant]++
	}
	for _, wanted := range m.breaks {
		if counts[wanted] > 0 {
			return fmt.Sprintf("killed: %s broken %d times", wanted, counts[wanted]), true
		}
	}
	return fmt.Sprintf("SURVIVED: %d violations, none of %v", len(report.Violations), m.breaks), false
}

// A test of a package as what a mutant breaks means that torture does not meet it. The sequences of lab/model find what breaks
// the operators' world.
const (
	model  = "lab/model.TestModel"
	runs   = "internal/dispatch.TestARunHasNothingThatChangedBeforeItsLock"
	leased = "internal/dispatch.TestARunIsLeasedUpToWhatAnotherHas"
)

// modelSeeds is how many sequences are played before a mutant has survived.
const modelSeeds = 1000

// test builds a package's tests with the bug in them and runs one of them.
func (h hunt) test(ctx context.Context, dir, config, pkg, test string) (verdict string, killed bool) {
	program := filepath.Join(dir, "tests")
	compile(ctx, "test", "-c", "-overlay", config, "-o", program, "./"+pkg)
	cmd := exec.CommandContext(ctx, program, "-test.run", "^"+test+"$", "-test.v", "-test.timeout", "1h")
	cmd.Dir = filepath.FromSlash(pkg)
	cmd.Env = append(os.Environ(), fmt.Sprint("SIMULATE_SEED=", h.seed), fmt.Sprint("SIMULATE_SEEDS=", modelSeeds))
	said, err := cmd.CombinedOutput()
	if h.verbose {
		fmt.Fprintf(h.out, "%s\n", said)
	}
	_, seed, played := strings.Cut(string(said), ": seed ")
	switch {
	case err == nil:
		return "SURVIVED: " + test + " passed", false
	case played:
		seed, _, _ := strings.Cut(seed, ":")
		return "killed: sequence " + seed, true
	case pkg+"."+test != model && strings.Contains(string(said), "--- FAIL: "+test):
		return "killed: " + test, true
	}
	return rig.Must("", fmt.Errorf("run %s: %w: %s", test, err, said)), false
}

// overlay writes the sources that have the bug, and the file that replaces them for the compiler
// only.
func overlay(dir string, m mutant) (config string) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range m.plant(rig.Must(filepath.Abs("."))) {
		replaced := filepath.Join(dir, strings.ReplaceAll(path, "/", "-"))
		rig.Check(os.WriteFile(replaced, []byte(text), 0o600))
		overlay.Replace[path] = replaced
	}
	config = filepath.Join(dir, "overlay.json")
	rig.Check(os.WriteFile(config, rig.Must(json.Marshal(overlay)), 0o600))
	return config
}

func compile(ctx context.Context, args ...string) {
	if said, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		rig.Check(fmt.Errorf("build: %w: %s", err, said))
	}
}
