package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// Unknown is the exit code of a Nagios plugin when the probe itself failed; the other codes are
// those of Level.
const Unknown = 3

// Text is one line without the sign that begins the perfdata.
func Text(text string) string {
	return strings.ReplaceAll(safetext.Line(strings.Join(strings.Fields(text), " ")), "|", "/")
}

// Line is the verdict as a Nagios plugin prints it: what raised it, the other figures, then
// perfdata.
func (c *Result) Line() string {
	return fmt.Sprintf("OUTBOX %s - %s | %s", c.Level, c.words(), strings.Join(c.perfdata(), " "))
}

// words is what raised the verdict, and the other figures.
func (c *Result) words() string {
	text := strings.Join(c.Remarks, ", ")
	if len(c.Alarms) > 0 {
		text = strings.Join(c.Alarms, "; ") + "; " + text
	}
	return Text(text)
}

// perfdata is the figures. A label with a blank is quoted.
func (c *Result) perfdata() []string {
	perf := make([]string, len(c.Figures))
	for i, f := range c.Figures {
		label := f.Label
		if strings.ContainsAny(label, " '=") {
			label = "'" + strings.NewReplacer("'", "''", "=", "_").Replace(label) + "'"
		}
		value := strconv.FormatFloat(f.Value, 'f', -1, 64)
		perf[i] = fmt.Sprintf("%s=%s%s;%s;%s;0", label, value, f.Unit, bound(f.Warning), bound(f.Critical))
	}
	return perf
}

func bound(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}
