package score

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verdict on a figure.
type Verdict string

// The verdicts.
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
