package cli

// A Trend is what a figure was in the last looks at it, drawn as bars.
type Trend []float64

// history is how many looks a trend spans.
const history = 60

// Add remembers a figure.
func (t *Trend) Add(v float64) {
	*t = append(*t, v)
	*t = (*t)[max(0, len(*t)-history):]
}

// String draws the figures as bars between zero and the greatest.
func (t Trend) String() string {
	bars := []rune("▁▂▃▄▅▆▇█")
	top := 0.0
	for _, v := range t {
		top = max(top, v)
	}
	line := make([]rune, len(t))
	for i, v := range t {
		step := 0
		if top > 0 {
			step = int(v / top * float64(len(bars)-1))
		}
		line[i] = bars[step]
	}
	return string(line)
}
