package ui

import (
	"fmt"
	"slices"

	"github.com/outboxctl/outboxctl/internal/words"
)

type hourBar struct {
	N         int64
	X         int
	Y, Height float64
}

// hourChart is the deaths of one cause by the hour, oldest first; the words say the same.
type hourChart struct {
	Bars  []hourBar
	Words string
}

// The size of a chart of hours, in units of its view box.
const (
	hourStep   = 4
	hourHeight = 20.0
)

// hourCharts draws each cause on a scale of its own: what matters is whether it goes on.
func hourCharts(deaths map[string][]int64) map[string]hourChart {
	charts := make(map[string]hourChart, len(deaths))
	for cause, hours := range deaths {
		var c hourChart
		var sum int64
		most := slices.Max(hours)
		for i := range hours {
			n := hours[len(hours)-1-i]
			sum += n
			height := 1.0
			if n > 0 {
				height = max(2, hourHeight*float64(n)/float64(most))
			}
			c.Bars = append(c.Bars, hourBar{n, i * hourStep, hourHeight - height, height})
		}
		c.Words = fmt.Sprintf("%s in the last %d hours, %s in the last one, at most %s in one", words.Counted(sum, "death"), len(hours), words.Count(hours[0]), words.Count(most))
		charts[cause] = c
	}
	return charts
}
