package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

const (
	// diffContext is how many lines around a change are shown.
	diffContext = 3
	// diffCells bounds the memory of a comparison; two texts that differ in more lines are shown one after the other.
	diffCells = 4_000_000
)

// WriteDiff shows how one text became another, line by line, coloured on a terminal.
func (a *App) WriteDiff(w io.Writer, tty bool, was, is string) {
	lines := diffLines(splitLines(was), splitLines(is))
	for i, l := range lines {
		near := slices.ContainsFunc(lines[max(0, i-diffContext):min(len(lines), i+diffContext+1)], func(l diffLine) bool { return l.sign != ' ' })
		switch {
		case !near:
			if i == 0 || slices.ContainsFunc(lines[max(0, i-diffContext-1):i], func(l diffLine) bool { return l.sign != ' ' }) {
				fmt.Fprintln(w, a.Paint(tty, StyleFaint, "  …"))
			}
		case l.sign == ' ':
			fmt.Fprintf(w, "  %s\n", safetext.Line(l.text))
		default:
			style := StyleGood
			if l.sign == '-' {
				style = StyleError
			}
			fmt.Fprintln(w, a.Paint(tty, style, fmt.Sprintf("%c %s", l.sign, safetext.Line(l.text))))
		}
	}
}

func splitLines(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

type diffLine struct {
	sign byte // '-', '+' or ' '
	text string
}

// diffLines compares by the longest common subsequence of what is left between a common beginning and a common end.
func diffLines(was, is []string) []diffLine {
	var head, tail []diffLine
	for len(was) > 0 && len(is) > 0 && was[0] == is[0] {
		head = append(head, diffLine{' ', was[0]})
		was, is = was[1:], is[1:]
	}
	for len(was) > 0 && len(is) > 0 && was[len(was)-1] == is[len(is)-1] {
		tail = append(tail, diffLine{' ', was[len(was)-1]})
		was, is = was[:len(was)-1], is[:len(is)-1]
	}
	slices.Reverse(tail)
	return slices.Concat(head, diffMiddle(was, is), tail)
}

func diffMiddle(was, is []string) []diffLine {
	// common[i][j] is the length of the longest common subsequence of was[i:] and is[j:].
	common := make([][]int32, len(was)+1)
	bounded := len(was)*len(is) <= diffCells
	for i := len(was); i >= 0 && bounded; i-- {
		common[i] = make([]int32, len(is)+1)
		for j := len(is) - 1; j >= 0 && i < len(was); j-- {
			if was[i] == is[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []diffLine
	i, j := 0, 0
	for i < len(was) || j < len(is) {
		switch {
		case i < len(was) && j < len(is) && bounded && was[i] == is[j]:
			lines = append(lines, diffLine{' ', was[i]})
			i, j = i+1, j+1
		case i < len(was) && (j == len(is) || !bounded || common[i+1][j] >= common[i][j+1]):
			lines = append(lines, diffLine{'-', was[i]})
			i++
		default:
			lines = append(lines, diffLine{'+', is[j]})
			j++
		}
	}
	return lines
}
