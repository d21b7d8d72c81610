package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/words"
)

// The size of a small chart, in units of its view box.
const (
	chartWidth  = 240.0
	chartHeight = 44.0
)

// chart is a line of the last hour above zero, drawn on the server. Points and Area are coordinates; the words say the same.
type chart struct {
	Points, Area string
	Words        string
}

// newChart draws one figure of the history. unit writes a value in words.
func newChart(history []point, figure func(point) float64, unit func(float64) string) chart {
	if len(history) < 2 {
		return chart{Words: "not enough figures yet"}
	}
	first, last := history[0].At, history[len(history)-1].At
	low, high := figure(history[0]), figure(history[0])
	for _, p := range history {
		low, high = min(low, figure(p)), max(high, figure(p))
	}
	top := max(high, 1e-9) // a line of zeros lies on the axis
	var points strings.Builder
	seconds := max(last.Sub(first).Seconds(), 1)
	for _, p := range history {
		x := chartWidth * p.At.Sub(first).Seconds() / seconds
		y := 2 + (chartHeight-4)*(1-figure(p)/top)
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
	}
	line := strings.TrimSpace(points.String())
	words := fmt.Sprintf("from %s to %s in the last %s, between %s and %s", unit(figure(history[0])), unit(figure(history[len(history)-1])),
		span(last.Sub(first)), unit(low), unit(high))
	return chart{
		Points: line, Area: fmt.Sprintf("0,%.1f %s %.1f,%.1f", chartHeight, line, chartWidth, chartHeight),
		Words: words,
	}
}

// hourBar is the deaths of one hour.
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

// momentsShown is how many rows the table of the charts has.
const momentsShown = 12

// moments takes some points of the history at even steps, the newest first.
func moments(history []point) []point {
	step := max((len(history)+momentsShown-1)/momentsShown, 1)
	var some []point
	for i := len(history) - 1; i >= 0; i -= step {
		some = append(some, history[i])
	}
	return some
}
