package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
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
	return fmt.Sprintf("OUTBOX %s - %s | %s", c.Level, c.words(), strings.Join(c.perfdata(""), " "))
}

// A Verdict is what was found in one of several contexts, or why nothing was.
type Verdict struct {
	Context string
	Result  *Result
	Problem string
}

// Lines is one line for all contexts, which names those that are not well and has the figures of
// all, then a line for each, and the exit code. A critical one is worse than one that could not be
// asked.
func Lines(verdicts []Verdict) (text string, code int) {
	var bad, perf, lines []string
	level := OK.String()
	worse := []int{0, 1, 3, 2} // by exit code
	for _, v := range verdicts {
		name, own, said, text := Text(v.Context), Unknown, "UNKNOWN", Text(v.Problem)
		if r := v.Result; v.Problem != "" {
			bad = append(bad, name+": "+text)
		} else {
			own, said, text = int(r.Level), r.Level.String(), r.words()
			perf = append(perf, r.perfdata(name+".")...)
			if r.Level != OK {
				bad = append(bad, name+": "+Text(strings.Join(r.Alarms, "; ")))
			}
		}
		if worse[own] > worse[code] {
			code, level = own, said
		}
		lines = append(lines, fmt.Sprintf("%s: %s - %s", name, said, text))
	}
	all := words.Counted(int64(len(verdicts)), "context")
	first := fmt.Sprintf("OUTBOX %s - %d of %s ok", level, len(verdicts)-len(bad), all)
	if len(bad) > 0 {
		first += "; " + strings.Join(bad, "; ")
	}
	return fmt.Sprintf("%s | %s\n%s", first, strings.Join(perf, " "), strings.Join(lines, "\n")), code
}

// words is what raised the verdict, and the other figures.
func (c *Result) words() string {
	text := strings.Join(c.Remarks, ", ")
	if len(c.Alarms) > 0 {
		text = strings.Join(c.Alarms, "; ") + "; " + text
	}
	return Text(text)
}

// perfdata is the figures, each label behind a prefix. A label with a blank is quoted.
func (c *Result) perfdata(prefix string) []string {
	perf := make([]string, len(c.Figures))
	for i, f := range c.Figures {
		label := prefix + f.Label
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
