package score

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// Verdict on a figure.
type Verdict string

const (
	Met Verdict = "met"
	// MetSmaller: met, by a run that was smaller or shorter than the target's.
	MetSmaller Verdict = "met, smaller"
	// Short: correct, but slower or larger than the target.
	Short Verdict = "short"
	// Violated: something was lost, doubled, or deleted wrongly.
	Violated Verdict = "violated"
	// NotRun: this machine lacks what the scenario needs.
	NotRun Verdict = "not run"
)

// Row is one line of the scoreboard. Rows are measured apart, so each says when, on what and from
// which sources.
type Row struct {
	Name     string  `json:"row"`
	Scenario string  `json:"scenario"`
	Target   string  `json:"target"`
	Figure   string  `json:"figure"`
	Verdict  Verdict `json:"verdict"`
	Seed     uint64  `json:"seed,omitempty"`
	Date     string  `json:"date"`
	Commit   string  `json:"commit"`
	Machine  string  `json:"machine"`
}

// Stamp is what all rows of one run have in common.
type Stamp struct {
	Seed            uint64
	Commit, Machine string
}

func (s Stamp) row(of entry, figure string, verdict Verdict) Row {
	return Row{
		Name: of.name, Scenario: of.scenario, Target: of.target, Figure: figure, Verdict: verdict,
		Seed: s.Seed, Date: time.Now().UTC().Format(time.DateOnly), Commit: s.Commit, Machine: s.Machine,
	}
}

// Board is the scoreboard's rows.
type Board struct {
	Rows []Row `json:"rows"`
}

// Load reads a board; a file that is not there is an empty one.
func Load(path string) (*Board, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Board{}, nil
	}
	if err != nil {
		return nil, err
	}
	b := &Board{}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// Put replaces the row of the same name, or adds it in its place.
func (b *Board) Put(row Row) {
	b.Rows = slices.DeleteFunc(b.Rows, func(r Row) bool { return r.Name == row.Name })
	b.Rows = append(b.Rows, row)
	slices.SortFunc(b.Rows, func(a, b Row) int { return cmp.Compare(number(a.Name), number(b.Name)) })
}

func number(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "R")) // what is no number comes first
	return n
}

// Save writes the board as JSON and, beside it, as a page.
func (b *Board) Save(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	page := strings.TrimSuffix(path, ".json") + ".md"
	return errors.Join(
		os.WriteFile(path, append(text, '\n'), 0o644),
		os.WriteFile(page, []byte(b.page()), 0o644),
	)
}

// Record puts one row into the board at path.
func Record(path string, row Row) error {
	b, err := Load(path)
	if err != nil {
		return err
	}
	b.Put(row)
	return b.Save(path)
}

const intro = `# Scoreboard

What outboxctl was put through, the target, and the figure ([how to run it](torture.md#the-scoreboard)). PostgreSQL, Redis, the broker's fake, producers and
publishers share one machine.

A row is **short** when its figure misses the target, **met, smaller** when the run was smaller than the scenario says, **violated** when an event
was lost, doubled without a cause or deleted wrongly, and **not run** where the machine lacked the means.

`

// retired are rows that torture proves, in every run and beside all other faults.
const retired = `
Retired, since every torture run proves them: R5 (by I12), R7 (I10), R9 (I3, I4), R17 (I6), R24 (I5). R16 is in the test suite.
`

// page is the scoreboard for readers. It is written by the tools and not edited.
func (b *Board) page() string {
	var s strings.Builder
	s.WriteString(intro)
	s.WriteString("| # | scenario | target | figure | verdict |\n|---|---|---|---|---|\n")
	for _, r := range b.Rows {
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s |\n", r.Name, cell(r.Scenario), cell(r.Target),
			cell(r.Figure), r.Verdict)
	}
	var machines []string
	for _, r := range b.Rows {
		if !slices.Contains(machines, r.Machine) {
			machines = append(machines, r.Machine)
		}
	}
	fmt.Fprintf(&s, "\nMeasured on: %s. Date, commit, seed and machine of each row are in [scoreboard.json](scoreboard.json).\n", strings.Join(machines, "; "))
	s.WriteString(retired)
	return s.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// Table is the rows for a terminal.
func Table(rows []Row) string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "#\tscenario\ttarget\tfigure\tverdict")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Scenario, r.Target, r.Figure, r.Verdict)
	}
	_ = w.Flush() // into memory
	return s.String()
}

// NewStamp describes this machine and these sources, without a name that leads to either.
func NewStamp(ctx context.Context, seed uint64) (_ Stamp, err error) {
	s := Stamp{Seed: seed, Commit: commit(ctx)}
	postgres, err := devstack.PostgresVersion(ctx)
	if err != nil {
		return s, err
	}
	s.Machine = fmt.Sprintf("%d cores, %s memory, %s/%s, PostgreSQL %s, %s, %s",
		runtime.NumCPU(), memory(), runtime.GOOS, runtime.GOARCH, postgres, redisVersion(ctx), runtime.Version())
	return s, nil
}

func commit(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "unknown" // a source archive
	}
	return strings.TrimSpace(string(text))
}

func memory() string {
	text, _ := os.ReadFile("/proc/meminfo") // elsewhere than on Linux it is not known
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.0f GiB", float64(kib)/(1<<20))
}

func redisVersion(ctx context.Context) string {
	text, _ := exec.CommandContext(ctx, "redis-server", "--version").Output() // without it there is the in-process one
	for word := range strings.FieldsSeq(string(text)) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			return "Redis " + version
		}
	}
	return "in-process Redis"
}
