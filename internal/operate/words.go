package operate

import "github.com/dustin/go-humanize"

// Count writes a number with its digits grouped.
func Count(n int64) string { return humanize.Comma(n) }

// Counted writes a number of things.
func Counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return humanize.Comma(n) + " " + noun + "s"
}
