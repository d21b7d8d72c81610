package score

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

const intro = `# Scoreboard

What outboxctl was put through, the target, and the figure ([how to run it](torture.md#the-scoreboard)). PostgreSQL, Redis, the broker's fake, producers and
publishers share one machine.

A row is **short** when its figure misses the target, **met, smaller** when the run was smaller than the scenario says, **violated** when an event
was lost, doubled without a cause or deleted wrongly, and **not run** where the machine lacked the means.

`

// retired are rows that torture proves, in every run and beside all other faults.
const retired = `
Retired, since every torture run proves them: R5, several publishers share the work (I12); R7, settles of a lost lease are refused (I10); R9, replies of COMMIT are cut
(I3, I4); R17, one effect for each event (I6); R24, order while publishers are killed and stand still (I5). R16, the bounds of a message, is in the test suite.
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
