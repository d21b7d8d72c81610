package score

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

const intro = `# Scoreboard

What outboxctl was put through, the target, and the figure. [torture.md](torture.md) says how to run it yourself.

A row is **short** when its figure misses the target: it stays here until the figure or the target changes. It is **met,
smaller** when the run was smaller or shorter than the scenario says; the figure tells how large it was. It is **violated** when an event was lost, doubled without a cause, or deleted wrongly. **Not run** is what the machine lacked
the means for. PostgreSQL, Redis, the broker's fake, producers and publishers share one machine.

`

// retired are rows that torture proves, in every run and beside all other faults.
const retired = `
## Retired

| # | scenario | proven by |
|---|---|---|
| R7 | publisher stopped for 2 leases after publishing; stale settles refused | torture's fault publisher.stop, invariant I10 (no settle from a lost lease); the planted bug settle-without-fence is found by it |
| R17 | consumers killed, Redis restarted: one effect for each event | torture's faults consumer.kill, consumer.crash in each failpoint, redis.kill, redis.flush and redis.oom, invariant I6 |
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
	s.WriteString("\n## When and where\n\n| # | date | commit | seed | machine |\n|---|---|---|---|---|\n")
	var machines []string
	for _, r := range b.Rows {
		i := slices.Index(machines, r.Machine)
		if i < 0 {
			i = len(machines)
			machines = append(machines, r.Machine)
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %d | %s |\n", r.Name, r.Date, r.Commit, r.Seed, letter(i))
	}
	s.WriteString("\n")
	for i, m := range machines {
		fmt.Fprintf(&s, "Machine %s: %s.\n", letter(i), m)
	}
	s.WriteString(retired)
	return s.String()
}

func letter(i int) string { return string(rune('A' + i%26)) }

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
