// Command suite reads the output of `go test -json` and prints what a person wants to see of it: a
// line for each package as it finishes, the output of tests that failed, and at the end what was
// skipped and why. It exits with 1 when a test or a build failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// slowTests is how many of the slowest tests the summary names.
const slowTests = 5

// longTest is the shortest time that makes a test one of the slow ones.
const longTest = 5.0

func main() {
	if !report(os.Stdin, os.Stdout, time.Now) {
		os.Exit(1)
	}
}

// event is a line of `go test -json`, or a line of the build's output.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build
	Test       string
	Output     string
	Elapsed    float64
}

type testName struct{ pkg, test string }

// tally is what is known of a package while it runs.
type tally struct {
	passed, failed, skipped int
	noTests                 bool
}

type suite struct {
	out      io.Writer
	packages map[string]*tally
	lines    map[testName][]string // printed when the test fails
	running  map[string]bool
	build    map[string][]string
	skips    map[string][]string // by reason
	slow     []event
	total    tally
	done     int
	failed   []string
}

// report copies what matters of in to out and tells whether everything passed.
func report(in io.Reader, out io.Writer, now func() time.Time) bool {
	began := now()
	s := &suite{out: out, packages: map[string]*tally{}, lines: map[testName][]string{}, running: map[string]bool{},
		build: map[string][]string{}, skips: map[string][]string{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				_, _ = out.Write(line) // what the go command says itself
			} else {
				s.take(e)
			}
		}
		if err != nil {
			break
		}
	}
	return s.finish(now().Sub(began))
}

func (s *suite) take(e event) {
	if e.ImportPath != "" {
		s.takeBuild(e)
		return
	}
	pkg := s.packages[e.Package]
	if pkg == nil {
		pkg = &tally{}
		s.packages[e.Package] = pkg
	}
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "start":
		s.running[e.Package] = true
	case "output":
		s.lines[name] = append(s.lines[name], e.Output)
		pkg.noTests = pkg.noTests || e.Test == "" && strings.Contains(e.Output, "[no test files]")
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.finishPackage(e, pkg)
			return
		}
		s.finishTest(e, pkg)
	}
}

func (s *suite) takeBuild(e event) {
	switch e.Action {
	case "build-output":
		s.build[e.ImportPath] = append(s.build[e.ImportPath], e.Output)
	case "build-fail":
		fmt.Fprint(s.out, strings.Join(s.build[e.ImportPath], ""))
		s.failed = append(s.failed, "build of "+short(e.ImportPath))
	}
}

func (s *suite) finishTest(e event, pkg *tally) {
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "pass":
		pkg.passed++
	case "fail":
		pkg.failed++
		fmt.Fprint(s.out, strings.Join(s.lines[name], ""))
		s.failed = append(s.failed, short(e.Package)+" "+e.Test)
	case "skip":
		pkg.skipped++
		reason := skipReason(s.lines[name])
		s.skips[reason] = append(s.skips[reason], short(e.Package)+" "+e.Test)
	}
	if e.Elapsed >= longTest && !strings.Contains(e.Test, "/") {
		s.slow = append(s.slow, e)
	}
	delete(s.lines, name)
}

func (s *suite) finishPackage(e event, pkg *tally) {
	delete(s.running, e.Package)
	s.total.passed += pkg.passed
	s.total.failed += pkg.failed
	s.total.skipped += pkg.skipped
	name := testName{e.Package, ""}
	output := s.lines[name]
	delete(s.lines, name)
	verdict := "ok  "
	switch {
	case e.Action == "fail":
		verdict = "FAIL"
		if pkg.failed == 0 {
			s.failed = append(s.failed, short(e.Package))
		}
		// What a panic, a leak or a deadline said belongs to no test that ended.
		for test, lines := range s.lines {
			if test.pkg == e.Package {
				output = append(output, lines...)
				delete(s.lines, test)
			}
		}
		fmt.Fprint(s.out, strings.Join(output, ""))
	case pkg.noTests || pkg.passed+pkg.skipped == 0:
		return
	}
	s.done++
	line := fmt.Sprintf("%s %-28s %4d tests %6.1fs", verdict, short(e.Package), pkg.passed+pkg.failed+pkg.skipped, e.Elapsed)
	if pkg.failed > 0 {
		line += fmt.Sprintf(", %d failed", pkg.failed)
	}
	if pkg.skipped > 0 {
		line += fmt.Sprintf(", %d skipped", pkg.skipped)
	}
	if len(s.running) > 0 && len(s.running) < 4 {
		line += "   still running: " + strings.Join(shortAll(s.running), ", ")
	}
	fmt.Fprintln(s.out, line)
}

func (s *suite) finish(took time.Duration) bool {
	for pkg := range s.running { // the go command ended before them
		s.failed = append(s.failed, short(pkg)+" did not finish")
	}
	for _, reason := range slices.Sorted(maps.Keys(s.skips)) {
		tests := s.skips[reason]
		more := ""
		if len(tests) > 3 {
			tests, more = tests[:3], fmt.Sprintf(" and %d more", len(tests)-3)
		}
		fmt.Fprintf(s.out, "skipped: %s (%s%s)\n", reason, strings.Join(tests, ", "), more)
	}
	slices.SortFunc(s.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range s.slow[:min(len(s.slow), slowTests)] {
		fmt.Fprintf(s.out, "slow: %s %s, %.0fs\n", short(e.Package), e.Test, e.Elapsed)
	}
	fmt.Fprintf(s.out, "%d packages, %d tests passed, %d failed, %d skipped in %s\n",
		s.done, s.total.passed, s.total.failed, s.total.skipped, took.Round(time.Second))
	for _, name := range s.failed {
		fmt.Fprintln(s.out, "FAILED:", name)
	}
	return len(s.failed) == 0 && s.done > 0
}

// skipReason is the text that a test gave to t.Skip.
func skipReason(lines []string) string {
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "=== ") {
			continue
		}
		if _, text, found := strings.Cut(line, ".go:"); found {
			if _, text, found = strings.Cut(text, ": "); found {
				return text
			}
		}
		return line
	}
	return "no reason given"
}

func short(pkg string) string {
	pkg, _, _ = strings.Cut(pkg, " ") // a build names the test binary it is for
	if pkg == "github.com/outboxctl/outboxctl" {
		return "(root)"
	}
	return strings.TrimPrefix(pkg, "github.com/outboxctl/outboxctl/")
}

func shortAll(packages map[string]bool) []string {
	var names []string
	for pkg := range packages {
		names = append(names, short(pkg))
	}
	slices.Sort(names)
	return names
}
